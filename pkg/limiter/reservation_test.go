package limiter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var (
	tokens = limiter.Per("tokens", 1000, 365*24*time.Hour)
	calls  = limiter.Per("calls", 10, 365*24*time.Hour)
)

func TestAReservationIsSettledOnce(t *testing.T) {
	l := newLimiter(t, memorystore.New())
	asked := []limiter.Request{tokens.For("team").N(300), calls.For("team")}
	r, err := l.Reserve(t.Context(), asked...)
	if err != nil || !r.Decisions().Allowed() || r.Token() == "" || used(t, l, asked[0]) != 300 {
		t.Fatalf("%v, %v", r, err)
	}
	for range 2 {
		tier.Must(t, r.Settle(t.Context(), 120, 1))
		if one, other := used(t, l, asked[0]), used(t, l, asked[1]); one != 120 || other != 1 {
			t.Errorf("%d tokens and %d calls are in use", one, other)
		}
	}
	for _, wrong := range [][]int64{{121, 1}, {120}, {}, {120, 1, 1}, {-1, 1}} {
		if err := r.Settle(t.Context(), wrong...); !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("settled at %v: %v", wrong, err)
		}
	}
	if err := l.Resume(r.Token(), asked...).Settle(t.Context(), 120, 1); err != nil {
		t.Errorf("in another process: %v", err)
	}
	if err := l.Resume("no such", asked...).Settle(t.Context(), 120, 1); !errors.Is(err, limiter.ErrUnknownToken) {
		t.Errorf("of a token that is not known: %v", err)
	}
}

// When an answer is lost, Reserve tries again, and nothing is charged twice.
func TestAReservationWhoseAnswerIsLost(t *testing.T) {
	lost := store.ErrOutcomeUnknown
	for _, test := range []struct {
		answers []error // to the takes; all of them charge
		want    error
	}{
		{[]error{lost, nil}, nil},
		{[]error{lost, lost, nil}, nil},
		{[]error{lost, lost, lost}, lost},
		{[]error{lost, store.ErrUnavailable}, lost},
	} {
		f, n := &faulty{Store: memorystore.New()}, 0
		l := newLimiter(t, f)
		f.after = func(op store.Op) error {
			if n++; op == store.Take {
				return test.answers[n-1]
			}
			return nil
		}
		r, err := l.Reserve(t.Context(), tokens.For("team").N(300))
		if r == nil || !errors.Is(err, test.want) || used(t, l, tokens.For("team")) != 300 {
			t.Fatalf("%v: %v, %v, %d in use", test.answers, r, err, used(t, l, tokens.For("team")))
		}
		if err := r.Cancel(t.Context()); err != nil || used(t, l, tokens.For("team")) != 0 {
			t.Errorf("%v: %v, %d in use", test.answers, err, used(t, l, tokens.For("team")))
		}
	}
	// So can what a failure policy denied.
	for name, fail := range map[string]limiter.Option{"closed": limiter.FailClosed(), "local": limiter.FailLocal(0.1)} {
		f := &faulty{Store: memorystore.New(), after: func(store.Op) error { return lost }}
		l := newLimiter(t, f, fail)
		r, err := l.Reserve(t.Context(), tokens.For("team").N(300))
		_, denied := errors.AsType[*limiter.DeniedError](err)
		f.after = nil
		if r == nil || !denied || used(t, l, tokens.For("team")) != 300 {
			t.Fatalf("%s: %v, %v", name, r, err)
		}
		if err := r.Cancel(t.Context()); err != nil || used(t, l, tokens.For("team")) != 0 {
			t.Errorf("%s: %v, %d in use", name, err, used(t, l, tokens.For("team")))
		}
	}
	// If the store has charged nothing, there is nothing to give back.
	f := &faulty{Store: memorystore.New(), instead: func(op store.Op) error {
		if op == store.Take {
			return store.ErrOutcomeUnknown
		}
		return nil
	}}
	r, err := newLimiter(t, f).Reserve(t.Context(), tokens.For("team").N(300))
	if r == nil || !errors.Is(err, limiter.ErrOutcomeUnknown) || f.calls != 3 {
		t.Fatalf("%v, %v after %d calls", r, err, f.calls)
	}
	if err := r.Cancel(t.Context()); err != nil {
		t.Error(err)
	}
}

// A reservation from an outage is settled in the store if that may have charged. A local share keeps the estimate.
func TestAReservationAcrossAnOutage(t *testing.T) {
	for name, test := range map[string]struct {
		fail             limiter.Option
		charged          bool  // in the store, whose answer is lost
		cost             int64 // after 300
		inStore, locally int64
	}{
		"open, charged":     {limiter.FailOpen(), true, 200, 200, 0},
		"open, not charged": {limiter.FailOpen(), false, 200, 0, 0},
		"local, charged":    {limiter.FailLocal(0.5), true, 200, 200, 300},
		"local, not":        {limiter.FailLocal(0.5), false, 200, 0, 300},
	} {
		kept := memorystore.New()
		f := &faulty{Store: kept}
		l := newLimiter(t, f, test.fail)
		if test.charged {
			f.after = func(store.Op) error { return store.ErrOutcomeUnknown }
		} else {
			f.instead = away
		}
		r, err := l.Reserve(t.Context(), tokens.For("team").N(300))
		if err != nil || r.Decisions().DecidedBy() == limiter.DecidedByStore {
			t.Fatalf("%s: %v, %v", name, r, err)
		}
		f.after, f.instead = nil, nil
		for range 2 {
			if err := r.Settle(t.Context(), test.cost); err != nil {
				t.Fatal(name, err)
			}
		}
		inStore := used(t, newLimiter(t, kept), tokens.For("team"))
		f.instead = away
		if locally := used(t, l, tokens.For("team")); inStore != test.inStore || locally != test.locally {
			t.Errorf("%s: %d are in use in the store, and %d locally, want %+v", name, inStore, locally, test)
		}
	}
}

// What the store may have charged cannot be settled while it is away. A later try succeeds.
func TestASettlementWithoutTheStore(t *testing.T) {
	f := &faulty{Store: memorystore.New()}
	l := newLimiter(t, f, limiter.FailOpen())
	r, err := l.Reserve(t.Context(), tokens.For("team").N(300))
	tier.Must(t, err)
	f.instead = away
	if err := r.Settle(t.Context(), 200); !limiter.IsAway(err) {
		t.Errorf("while it is away: %v", err)
	}
	f.instead = nil
	if err := r.Settle(t.Context(), 200); err != nil || used(t, l, tokens.For("team")) != 200 {
		t.Errorf("%v, %d in use", err, used(t, l, tokens.For("team")))
	}
}

// The requests of an exempt subject are counted and settled like those of others.
func TestAReservationOfTheExempted(t *testing.T) {
	kept := memorystore.New()
	l := newLimiter(t, overriding(t, kept, kept, "team", store.OverrideExempt), limiter.Overrides{})
	all := limiter.Per("all", 1000, 365*24*time.Hour)
	if _, err := l.Charge(t.Context(), tokens.For("team").N(900)); err != nil {
		t.Fatal(err)
	}
	r, err := l.Reserve(t.Context(), tokens.For("team").N(300), all.For("all").N(300)) // the first does not fit
	if err != nil || used(t, l, all.For("all")) != 300 {
		t.Fatalf("%v, %v", r, err)
	}
	if err := r.Settle(t.Context(), 20, 20); err != nil || used(t, l, all.For("all")) != 20 {
		t.Errorf("%v, %d in use", err, used(t, l, all.For("all")))
	}
}

// A repeated call with the token of a cancelled one is charged again. A Cancel after a Settle gives nothing back.
func TestACanceledTokenIsChargedAgain(t *testing.T) {
	ctx := t.Context()
	l := newLimiter(t, memorystore.New())
	job := limiter.Per("job", 3, time.Hour).For("team")
	gone, leave := context.WithCancel(ctx)
	leave()
	var none *limiter.Reservation
	if err := none.Cancel(ctx); err != nil {
		t.Errorf("of nothing: %v", err)
	}
	for range 2 {
		r, err := l.Reserve(ctx, job.N(3).Token("job-42", 0))
		if err != nil || used(t, l, job) != 3 || r.Decisions().At(0).Repeated {
			t.Fatalf("%+v, %v, %d in use", r, err, used(t, l, job))
		}
		for range 2 {
			if err := r.Cancel(gone); err != nil || used(t, l, job) != 0 {
				t.Errorf("canceled: %v, %d in use", err, used(t, l, job))
			}
		}
	}
	r, err := l.Reserve(ctx, job.N(3).Token("job-42", 0))
	tier.Must(t, err)
	tier.Must(t, r.Settle(ctx, 2))
	if err := r.Cancel(ctx); !errors.Is(err, limiter.ErrInvalid) || used(t, l, job) != 2 ||
		!strings.Contains(err.Error(), `token "job-42" was settled at a cost of 2 before, not 0`) {
		t.Errorf("canceled after it was settled: %v, %d in use", err, used(t, l, job))
	}
}
