package layers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// outage is a store that can go away, with its own clock.
type outage struct {
	store.Store
	now time.Time
	err error // while it is away
}

func newOutage() *outage {
	o := &outage{now: time.Unix(1_700_000_000, 0)}
	o.Store = memorystore.New(memorystore.WithClock(o.clock))
	return o
}

func (o *outage) clock() time.Time { return o.now }

func (o *outage) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if o.err != nil {
		return o.err
	}
	return o.Store.Decide(ctx, op, reqs, decisions)
}

// locally wraps o as a service would.
func (o *outage) locally(share store.Share) store.Store {
	return layers.Stack(o, layers.Layers{Failure: layers.Failure{Policy: store.LocalOnError, Share: share,
		Fallback: memorystore.New(memorystore.WithClock(o.clock))}})
}

func decide(t failer, backend store.Store, op store.Op, reqs ...store.Request) []store.Decision {
	t.Helper()
	decisions := make([]store.Decision, len(reqs))
	if err := backend.Decide(context.Background(), op, reqs, decisions); err != nil {
		t.Fatal(err)
	}
	return decisions
}

func asking(subject, limit string, cost int64) store.Request {
	parsed, err := store.ParseLimit(limit)
	if err != nil {
		panic(err)
	}
	req := store.Request{Key: store.Key{Subject: subject, Name: "n"}, Limit: parsed, Cost: cost}
	req.SetDefaults()
	return req
}

// While the store is away its share decides, and the usage in the store stays.
func TestLocalDecidesAShare(t *testing.T) {
	o := newOutage()
	backend := o.locally(0)
	req := asking("u", "100/1h", 10)
	for i := range 3 {
		if d := decide(t, backend, store.Take, req)[0]; !d.Allowed || d.DecidedBy != store.DecidedByStore || d.Used != int64(10*i+10) {
			t.Errorf("with the store: %+v", d)
		}
	}
	o.err = errUnknown
	for i, want := range []store.Decision{
		{Allowed: true, Used: 10, Granted: 10, Remaining: 15, ResetAfter: 24 * time.Minute},
		{Allowed: true, Used: 20, Granted: 10, Remaining: 5, ResetAfter: 48 * time.Minute},
		{Allowed: false, Used: 20, Remaining: 5, ResetAfter: 48 * time.Minute, RetryAfter: 12 * time.Minute},
	} {
		want.At, want.DecidedBy, want.LocalShare = store.InstantOf(o.now), store.DecidedByLocal, store.DefaultShare
		if d := decide(t, backend, store.Take, req)[0]; d != want {
			t.Errorf("take %d without the store: %+v, not %+v", i, d, want)
		}
	}
	o.now = o.now.Add(12*time.Minute - time.Microsecond)
	if d := decide(t, backend, store.Peek, req)[0]; d.Allowed || d.RetryAfter != time.Microsecond || d.DecidedBy != store.DecidedByLocal {
		t.Errorf("a microsecond early: %+v", d)
	}
	o.now = o.now.Add(time.Microsecond)
	if d := decide(t, backend, store.Take, req)[0]; !d.Allowed || d.Unguarded {
		t.Errorf("on time: %+v", d)
	}
	o.err = nil
	if d := decide(t, backend, store.Take, req)[0]; !d.Allowed || d.Used != 20 || d.DecidedBy != store.DecidedByStore {
		t.Errorf("with the store again: %+v; want the 30 used 12 minutes ago, less 20, and these 10", d)
	}
}

// A cost that never fits its share is denied and not charged. One that never fits the limit is an error.
func TestLocalDeniesWhatItsShareNeverFits(t *testing.T) {
	o := newOutage()
	o.err = errAway
	backend := o.locally(0)
	large, small := asking("large", "100/1h", 26), asking("small", "100/1h", 20)
	for _, op := range []store.Op{store.Take, store.Peek} {
		got := decide(t, backend, op, small, large)
		for i, want := range []store.Decision{
			{Allowed: true, Remaining: 25},
			{Allowed: false, Remaining: 25, RetryAfter: time.Second},
		} {
			want.At, want.DecidedBy, want.LocalShare = store.InstantOf(o.now), store.DecidedByLocal, store.DefaultShare
			if got[i] != want {
				t.Errorf("%s, request %d: %+v, not %+v", op, i, got[i], want)
			}
		}
	}
	if d := decide(t, backend, store.Take, small)[0]; d.Used != 20 {
		t.Errorf("%d are used, so the denied call was charged", d.Used)
	}
	large.Shadow = true // it denies nothing
	got := decide(t, backend, store.Take, asking("other", "100/1h", 1), large)
	if !got[0].Allowed || got[0].Used != 1 || got[1].Allowed || !got[1].Shadow || got[1].RetryAfter != 0 {
		t.Errorf("with a fallback store that never fits: %+v", got)
	}
	for cost, want := range map[int64]error{101: store.ErrNeverFits, 0: store.ErrInvalid} {
		wrong := asking("u", "100/1h", cost)
		err := backend.Decide(context.Background(), store.Take, []store.Request{wrong}, make([]store.Decision, 1))
		if !errors.Is(err, want) || store.IsAway(err) {
			t.Errorf("cost %d: %v; want %v", cost, err, want)
		}
	}
}

// crowded returns a store that is away, and whose fallback store is full of a limit that holds keys.
func crowded(t *testing.T, share store.Share, limit string) (o *outage, backend store.Store) {
	t.Helper()
	layers.SetFallbackKeys(t, 1000, 64)
	o = newOutage()
	o.err = errUnknown
	backend = o.locally(share)
	takeOf(t, backend, "held ", 1000, limit)
	return o, backend
}

// takeOf takes for many keys, and returns how many are let through.
func takeOf(t *testing.T, backend store.Store, prefix string, keys int, limit string) (allowed int) {
	t.Helper()
	for i := range keys {
		if decide(t, backend, store.Take, asking(fmt.Sprint(prefix, i), limit, 1))[0].Allowed {
			allowed++
		}
	}
	return allowed
}

// Invented keys in an outage fill no memory, gain nothing, and take nothing from the keys that the fallback store holds.
func TestInventedKeysFillNoFallback(t *testing.T) {
	o, backend := crowded(t, store.DefaultShare, "8/1h")
	if allowed := takeOf(t, backend, "invented ", 2000, "8/1h"); allowed != 2*64 { // a share of 2 for each shared key
		t.Errorf("%d invented keys are let through; the crowd has %d units", allowed, 2*64)
	}
	if held := layers.StatsOf(backend).LocalKeys; held > 1000+64 {
		t.Errorf("%d keys are held", held)
	}
	if d := decide(t, backend, store.Take, asking("held 0", "8/1h", 1))[0]; !d.Allowed || d.Used != 2 {
		t.Errorf("a key that is held lost its state: %+v", d)
	}
	for i := range 300 { // some share a key
		decide(t, backend, store.Take, asking("new", "9/1h", 1), asking(fmt.Sprint("newer ", i), "9/1h", 1))
	}
	// When the usage has faded, keys are separate again.
	o.now = o.now.Add(2 * time.Hour)
	for i := range 2000 { // a denial frees nothing
		decide(t, backend, store.Take, asking(fmt.Sprint("later ", i%100), "1000000/1h", 1))
	}
	for i := range 100 { // in a crowd, a key can be alone
		if d := decide(t, backend, store.Take, asking(fmt.Sprint("own again ", i), "8/1h", 2))[0]; !d.Allowed || d.Used != 2 {
			t.Fatalf("the fallback store stays full: %+v", d)
		}
	}
}

// Invented keys of a limit with a short period free nothing of a limit with a long one.
func TestACrowdHasOneLimit(t *testing.T) {
	o, backend := crowded(t, store.WholeShare, "1/1d")
	lasting := asking("invented", "2/1d", 2)
	if d := decide(t, backend, store.Take, lasting)[0]; !d.Allowed {
		t.Fatalf("the first take: %+v", d)
	}
	takeOf(t, backend, "soon ", 2000, "4/1s") // so that each shared key gets some
	o.now = o.now.Add(time.Minute)
	if d := decide(t, backend, store.Take, lasting)[0]; d.Allowed {
		t.Errorf("a minute later: %+v", d)
	}
}

// A local share scales what is left with the limit.
func TestALocalShareScalesWhatIsLeft(t *testing.T) {
	o := newOutage()
	backend := o.locally(0)
	o.err = errUnknown
	req := asking("u", "100/1h", 1)
	req.Leave = 30
	if d := decide(t, backend, store.Take, req)[0]; !d.Allowed || d.Remaining != 16 { // of 25, with 8 to be left
		t.Errorf("%+v", d)
	}
	req.Cost = 60 // it fits the limit and not the share
	if d := decide(t, backend, store.Take, req)[0]; d.Allowed || d.RetryAfter != time.Second {
		t.Errorf("%+v", d)
	}
}
