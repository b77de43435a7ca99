package limiter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

func TestAnObserverIsToldOfCalls(t *testing.T) {
	var calls []limiter.Call
	store := &sickStore{}
	observed := limiter.New(limiter.WithObserver(store, limiter.Observer{OnCall: func(_ context.Context, call limiter.Call) {
		call.Requests = append([]limiter.Request(nil), call.Requests...)
		calls = append(calls, call)
	}}))
	key, limit := limiter.Key{Subject: "user:42"}, limiter.Limit{Count: 1, Period: time.Second}
	observed.Take(context.Background(), key, limit, 3)
	store.set(limiter.ErrUnavailable, 0)
	observed.Peek(context.Background(), key, limit, 1)
	if len(calls) != 2 {
		t.Fatalf("told of %d calls", len(calls))
	}
	denied, failed := calls[0], calls[1]
	if denied.Op != limiter.Take || denied.Requests[0].Cost != 3 || denied.Outcome() != "denied" || denied.Err != nil || denied.Took <= 0 {
		t.Errorf("a denial: %+v", denied)
	}
	if failed.Op != limiter.Peek || failed.Outcome() != "unavailable" || failed.Decisions != nil {
		t.Errorf("an error: %+v", failed)
	}
}

func TestOutcomes(t *testing.T) {
	for want, err := range map[string]error{
		"invalid": limiter.Invalidf("no"), "unavailable": limiter.ErrUnavailable, "outcome-unknown": limiter.ErrOutcomeUnknown,
		"gave-up": fmt.Errorf("%w: %w", limiter.ErrGaveUp, context.Canceled), "refused": limiter.ErrRefused,
		"foreign": &limiter.ForeignError{}, "error": errors.New("something"), "denied": nil, // nobody was asked
	} {
		if got := (&limiter.Call{Err: err}).Outcome(); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
	if got := (&limiter.Call{Decisions: []limiter.Decision{{Allowed: true}}}).Outcome(); got != "allowed" {
		t.Errorf("what is allowed is %q", got)
	}
	both := limiter.Call{Err: fmt.Errorf("%w: %w", limiter.ErrGaveUp, limiter.ErrOutcomeUnknown)}
	if both.Outcome() != "gave-up-unknown" {
		t.Errorf("what may be charged, and nobody waited for, is %q", both.Outcome())
	}
}

// A breaker and a failure policy below tell the same observer.
func TestAnObserverIsToldOfTheBreakerAndOfFailures(t *testing.T) {
	store := &sickStore{err: limiter.ErrUnavailable}
	var told []string
	own := 0
	observer := limiter.Observer{
		OnCall: func(_ context.Context, call limiter.Call) {
			told = append(told, call.Outcome()+" by "+call.Decisions[0].DecidedBy.String())
		},
		OnFailure: func(err error) { told = append(told, "failure: "+err.Error()) },
		OnBreaker: func(change limiter.BreakerChange) { told = append(told, change.To.String()) },
	}
	breaker := observer.Breaker(limiter.Breaker{Failures: 1, Clock: store.clock, OnChange: func(limiter.BreakerChange) { own++ }})
	var wrapped limiter.Store = limiter.WithBreaker(store, breaker)
	wrapped = limiter.WithFailurePolicy(wrapped, limiter.AllowOnError, observer.Failure())
	wrapped = limiter.WithObserver(wrapped, observer)
	key, limit := limiter.Key{Subject: "user:42"}, limiter.Limit{Count: 1, Period: time.Second}
	if _, err := limiter.New(wrapped).Take(context.Background(), key, limit, 1); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(told, "; "); got != "open; failure: store unavailable; allowed by failure-policy" || own != 1 {
		t.Errorf("told %s; the breaker's own function %d times", got, own)
	}
}

func TestAnObserverThatIsNotSetCostsNothing(t *testing.T) {
	store := memorystore.New()
	if limiter.WithObserver(store, limiter.Observer{}) != limiter.Store(store) {
		t.Error("it wraps the store")
	}
	if limiter.Observer.Failure(limiter.Observer{}) != nil || limiter.Observer.Breaker(limiter.Observer{}, limiter.Breaker{}).OnChange != nil {
		t.Error("it wants to be told")
	}
	observed := limiter.New(limiter.WithObserver(store, limiter.Observer{OnCall: func(context.Context, limiter.Call) {}}))
	key, limit := limiter.Key{Subject: "user:42"}, limiter.Limit{Count: 1, Period: time.Hour}
	if n := testing.AllocsPerRun(100, func() { observed.Take(context.Background(), key, limit, 1) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

// A panic of each function changes no decision, and is told of once.
func TestAnObserversPanicReachesNobody(t *testing.T) {
	panicsAt := 0
	observer := limiter.Observer{
		OnCall:    func(context.Context, limiter.Call) { panicsAt++; panic("a bug in OnCall\nof two lines") },
		OnFailure: func(error) { panic("a bug in OnFailure") },
		OnBreaker: func(limiter.BreakerChange) { panic("a bug in OnBreaker") },
	}
	var told []string
	observer.OnPanic = func(err error) { told = append(told, err.Error()) }
	key, limit := limiter.Key{Subject: "user:42"}, limiter.Limit{Count: 1, Period: time.Hour}
	limits := limiter.New(limiter.WithObserver(memorystore.New(), observer))
	for n := range 2 {
		if d, err := limits.Take(context.Background(), key, limit, 1); err != nil || d.Allowed != (n == 0) {
			t.Errorf("%+v, %v", d, err)
		}
	}
	observer.Failure()(limiter.ErrUnavailable)
	observer.Breaker(limiter.Breaker{}).OnChange(limiter.BreakerChange{})
	want := "internal error: a bug in OnCall; internal error: a bug in OnFailure; internal error: a bug in OnBreaker"
	if got := strings.Join(told, "; "); got != want || panicsAt != 2 {
		t.Errorf("told %q, want %q; OnCall was called %d times", got, want, panicsAt)
	}

	observer.OnPanic = func(error) { panic("a bug in OnPanic") }
	if _, err := limiter.New(limiter.WithObserver(memorystore.New(), observer)).Take(context.Background(), key, limit, 1); err != nil {
		t.Error(err)
	}

	observer.OnPanic = nil
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	limits = limiter.New(limiter.WithObserver(memorystore.New(), observer))
	for range 3 {
		limits.Take(context.Background(), key, limit, 1)
	}
	if lines := strings.Count(log.String(), "an observer panicked"); lines != 1 || !strings.Contains(log.String(), "a bug in OnCall") {
		t.Errorf("logged %d times: %s", lines, log.String())
	}
}

func BenchmarkObserver(b *testing.B) {
	key, limit := limiter.Key{Subject: "user:42"}, limiter.Limit{Count: 1, Period: time.Hour}
	for name, store := range map[string]limiter.Store{
		"without": memorystore.New(),
		"with":    limiter.WithObserver(memorystore.New(), limiter.Observer{OnCall: func(context.Context, limiter.Call) {}}),
		"denials": limiter.WithDenialLog(memorystore.New(), limiter.DenialLog{}),
	} {
		b.Run(name, func(b *testing.B) {
			limits := limiter.New(store)
			b.ReportAllocs()
			for b.Loop() {
				limits.Take(context.Background(), key, limit, 1)
			}
		})
	}
}
