package layers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
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
	return layers.WithFailure(o, layers.Failure{Policy: store.LocalOnError, Share: share, Clock: o.clock})
}

func decide(t *testing.T, backend store.Store, op store.Op, reqs ...store.Request) []store.Decision {
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
	return store.Request{Key: store.Key{Subject: subject, Name: "n"}, Limit: parsed, Cost: cost}
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

// A cost that never fits its share is denied and not charged. A cost that never fits the limit is an error as
// always.
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

// In an outage, replicas let through at most their shares in addition to the store: replicas × share × limit, for
// every algorithm and however often the store goes away.
func TestLocalOverAdmitsAtMostItsShares(t *testing.T) {
	const replicas, count = 3, 40
	for _, kind := range store.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, uint64(kind)))
			o := newOutage()
			var stores []store.Store
			for range replicas {
				stores = append(stores, o.locally(store.WholeShare/5))
			}
			req := store.Request{Key: store.Key{Subject: "u"}, Cost: 1,
				Limit: storetest.LimitOf(kind, count, time.Hour)}
			stored, local := 0, 0
			for range 2000 {
				if o.err = nil; random.IntN(2) == 0 {
					o.err = errAway
				}
				req.Cost = 1 + random.Int64N(3)
				d := decide(t, stores[random.IntN(replicas)], store.Take, req)[0]
				if (d.DecidedBy == store.DecidedByLocal) != (o.err != nil) || d.Unguarded {
					t.Fatalf("%+v, the store's error being %v", d, o.err)
				}
				switch {
				case d.Allowed && d.DecidedBy == store.DecidedByLocal:
					local += int(req.Cost)
				case d.Allowed:
					stored += int(req.Cost)
				}
			}
			if stored != count || local != replicas*count/5 {
				t.Errorf("the store let %d through and the fallback stores %d; want %d, and at most %d × 8", stored, local, count, replicas)
			}
		})
	}
}

// The fallback store in memory gives the same answers as a memory store.
func TestTheFallbackInMemoryIsAStore(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 3))
	o := newOutage()
	o.err = errAway
	inMap := o.locally(store.WholeShare)
	inStore := layers.WithFailure(o, layers.Failure{Policy: store.LocalOnError, Share: store.WholeShare,
		Fallback: memorystore.New(memorystore.WithClock(o.clock))})
	kinds := store.Kinds()
	for step := range 20_000 {
		o.now = o.now.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
		var reqs []store.Request
		for subject := range 1 + random.IntN(3) {
			kind := kinds[random.IntN(len(kinds))]
			limit := store.Limit{Algorithm: kind.Algorithm(), Count: 5, Period: 10 * time.Second}
			if kind.HasSlices() {
				limit.Slices = 10
			}
			if kind.InCalendar() {
				limit = storetest.LimitOf(kind, 5, 0)
			}
			key := store.Key{Subject: fmt.Sprint(subject, random.IntN(4))}
			reqs = append(reqs, store.Request{Key: key, Limit: limit, Cost: 1 + random.Int64N(5), Shadow: random.IntN(8) == 0})
		}
		op := store.Op(random.IntN(2))
		if got, want := decide(t, inMap, op, reqs...), decide(t, inStore, op, reqs...); !slices.Equal(got, want) {
			t.Fatalf("step %d: %s of %+v gives %+v, not %+v", step, op, reqs, got, want)
		}
	}
}

// A local decision is only for outages, and a caller that gave up gets none. If nothing can decide, the error is
// the store's.
func TestLocalIsForOutagesAlone(t *testing.T) {
	ctx := context.Background()
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	for _, test := range []struct {
		name string
		ctx  context.Context
		op   store.Op
		err  error
	}{
		{"refused", ctx, store.Take, store.ErrRefused},
		{"foreign", ctx, store.Take, store.ErrForeign},
		{"invalid", ctx, store.Take, store.ErrInvalid},
		{"refund", ctx, store.Refund, errAway},
		{"adjustment", ctx, store.Adjust, errUnknown},
		{"caller left", canceled, store.Take, errAway},
		{"caller out of time", ctx, store.Take, fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, store.ErrGaveUp)},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOutage()
			o.err = test.err
			told := 0
			backend := layers.WithFailure(o, layers.Failure{Policy: store.LocalOnError, OnFailure: func(error) { told++ }})
			err := backend.Decide(test.ctx, test.op, []store.Request{asking("u", "10/1h", 1)}, make([]store.Decision, 1))
			if err != test.err || told != 0 {
				t.Errorf("%v, told of %d; want %v", err, told, test.err)
			}
		})
	}
}

// If a fallback store fails, the error is the store's, and names the cause.
func TestAFallbackThatFails(t *testing.T) {
	for _, away := range []error{errAway, errUnknown} {
		o := newOutage()
		o.err = away
		told := 0
		backend := layers.WithFailure(o, layers.Failure{Policy: store.LocalOnError, OnFailure: func(error) { told++ },
			Fallback: &fakeStore{err: fmt.Errorf("%w: disk full", store.ErrRefused)}})
		err := backend.Decide(context.Background(), store.Take, []store.Request{asking("u", "10/1h", 1)}, make([]store.Decision, 1))
		want := away.Error() + "; deciding locally failed too: store refused: disk full"
		if fmt.Sprint(err) != want || !errors.Is(err, away) || errors.Is(err, store.ErrRefused) || told != 0 {
			t.Errorf("%v, told of %d; want %s", err, told, want)
		}
	}
}

// Invented keys in an outage fill no memory, gain nothing, and take nothing from the keys that the fallback store holds.
func TestInventedKeysFillNoFallback(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	for name, fallback := range map[string]func(o *outage) store.Store{
		"map":         func(*outage) store.Store { return nil },
		"memorystore": func(o *outage) store.Store { return memorystore.New(memorystore.WithClock(o.clock)) },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutage()
			o.err = errUnknown
			backend := layers.WithFailure(o, layers.Failure{
				Policy: store.LocalOnError, Share: store.DefaultShare, Clock: o.clock, Fallback: fallback(o),
			})
			const held, invented = 100_000, 200_000 // as in the documentation
			first := asking("held", "8/1h", 1)
			decide(t, backend, store.Take, first)
			for i := range held {
				decide(t, backend, store.Take, asking(fmt.Sprint("held ", i), "8/1h", 1))
			}
			allowed := 0
			for i := range invented {
				if decide(t, backend, store.Take, asking(fmt.Sprint("invented ", i), "8/1h", 1))[0].Allowed {
					allowed++
				}
			}
			if most := 2 * 1 << 14; allowed > most || allowed < most/2 { // a share of 2 for each shared key
				t.Errorf("%d invented keys are let through; the crowd has %d units", allowed, most)
			}
			for range 3 {
				decide(t, backend, store.Take, asking("invented last", "8/1h", 1))
			}
			if d := decide(t, backend, store.Take, asking("invented last", "8/1h", 1))[0]; d.Allowed {
				t.Errorf("an invented key has more than its share: %+v", d)
			}
			if d := decide(t, backend, store.Take, first)[0]; !d.Allowed || d.Used != 2 {
				t.Errorf("a key that is held lost its state: %+v", d)
			}
			several := []store.Request{asking("new", "8/1h", 1), asking("newer", "8/1h", 1)}
			several[1].Key.Name = "m"
			decide(t, backend, store.Take, several...)
			// When the usage has faded, keys are separate again.
			o.now = o.now.Add(2 * time.Hour)
			for i := range 2 * held { // a denial frees nothing
				decide(t, backend, store.Take, asking(fmt.Sprint("later ", i%1000), "1000000/1h", 1))
			}
			for i := range 100 { // in a crowd, a key can be alone
				if d := decide(t, backend, store.Take, asking(fmt.Sprint("own again ", i), "8/1h", 2))[0]; !d.Allowed || d.Used != 2 {
					t.Fatalf("the fallback store stays full: %+v", d)
				}
			}
		})
	}
}

// Invented keys of a limit with a short period free nothing of a limit with a long one.
func TestACrowdHasOneLimit(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	o := newOutage()
	o.err = errUnknown
	backend := o.locally(store.WholeShare)
	for i := range 100_000 {
		decide(t, backend, store.Take, asking(fmt.Sprint("held ", i), "1/1d", 1))
	}
	lasting := asking("invented", "2/1d", 2)
	if d := decide(t, backend, store.Take, lasting)[0]; !d.Allowed {
		t.Fatalf("the first take: %+v", d)
	}
	for i := range 200_000 { // so that each shared key gets some
		decide(t, backend, store.Take, asking(fmt.Sprint("soon ", i), "4/1s", 1))
	}
	o.now = o.now.Add(time.Minute)
	if d := decide(t, backend, store.Take, lasting)[0]; d.Allowed {
		t.Errorf("a minute later: %+v", d)
	}
}

// A key that was charged in the crowd is not allowed again when the fallback store has room for it.
func TestTheCrowdIsLeftWhenNothingOfItIsInUse(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	o := newOutage()
	o.err = errUnknown
	backend := o.locally(store.WholeShare / 4)
	for i := range 100_000 {
		decide(t, backend, store.Take, asking(fmt.Sprint("soon ", i), "4/1s", 1))
	}
	lasting := asking("invented", "100/1d", 1)
	let := func() (allowed int) {
		for range 100 {
			if decide(t, backend, store.Take, lasting)[0].Allowed {
				allowed++
			}
		}
		return allowed
	}
	if allowed := let(); allowed != 25 {
		t.Fatalf("%d were let through while the fallback store was full, want 25", allowed)
	}
	o.now = o.now.Add(time.Minute)
	for i := range 100_000 { // removes the others
		decide(t, backend, store.Take, asking(fmt.Sprint("late ", i%1000), "4/1s", 1))
	}
	if allowed := let(); allowed != 0 {
		t.Errorf("%d more were let through when it was not full any more", allowed)
	}
	o.now = o.now.Add(24 * time.Hour)
	if allowed := let(); allowed != 25 {
		t.Errorf("a day later %d were let through, want 25", allowed)
	}
}
