package layers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// double is a store whose answers a test decides: instead gets each call, and may pass it on.
type double struct {
	store.Store
	instead func(ctx context.Context, op store.Op, decisions []store.Decision, ask passing) error
}

// passing asks the store inside.
type passing func(ctx context.Context) error

func (s *double) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	ask := func(ctx context.Context) error { return s.Store.Decide(ctx, op, reqs, decisions) }
	return s.instead(ctx, op, decisions, ask)
}

// outage is a store that can go away, with its own clock.
type outage struct {
	double
	now time.Time
	err error // while it is away
}

func newOutage() *outage {
	o := &outage{now: time.Unix(1_700_000_000, 0)}
	o.Store = memorystore.New(memorystore.WithClock(o.clock))
	o.instead = func(ctx context.Context, _ store.Op, _ []store.Decision, ask passing) error {
		if o.err != nil {
			return o.err
		}
		return ask(ctx)
	}
	return o
}

func (o *outage) clock() time.Time { return o.now }

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
		if d := decide(t, backend, store.Take, req)[0]; !d.Allowed || d.DecidedBy != store.DecidedByStore ||
			d.Used != int64(10*i+10) {
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
	if d := decide(t, backend, store.Peek, req)[0]; d.Allowed || d.RetryAfter != time.Microsecond ||
		d.DecidedBy != store.DecidedByLocal {
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
