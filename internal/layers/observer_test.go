package layers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestAnObserverIsToldOfCalls(t *testing.T) {
	var calls []layers.Call
	backend := &fakeStore{}
	observed := layers.WithObserver(backend, layers.Observer{OnCall: func(_ context.Context, call layers.Call) {
		call.Requests = slices.Clone(call.Requests)
		calls = append(calls, call)
	}})
	decide(t, observed, store.Take, asking("user:42", "1/1s", 3))
	backend.err = store.ErrUnavailable
	err := observed.Decide(t.Context(), store.Peek, []store.Request{asking("user:42", "1/1s", 1)}, make([]store.Decision, 1))
	if len(calls) != 2 || err != store.ErrUnavailable {
		t.Fatalf("told of %d calls; %v", len(calls), err)
	}
	denied, failed := calls[0], calls[1]
	if denied.Op != store.Take || denied.Requests[0].Cost != 3 || denied.Outcome() != "denied" || denied.Err != nil || denied.Took <= 0 {
		t.Errorf("a denial: %+v", denied)
	}
	if failed.Op != store.Peek || failed.Outcome() != "unavailable" || failed.Decisions != nil {
		t.Errorf("an error: %+v", failed)
	}
}

func TestOutcomes(t *testing.T) {
	for want, call := range map[string]layers.Call{
		"invalid": {Err: store.Invalidf("no")}, "unavailable": {Err: store.ErrUnavailable}, "refused": {Err: store.ErrRefused},
		"outcome-unknown": {Err: store.ErrOutcomeUnknown}, "foreign": {Err: &store.ForeignError{}},
		"error":           {Err: errors.New("something")},
		"gave-up":         {Err: fmt.Errorf("%w: %w", store.ErrGaveUp, context.Canceled)},
		"gave-up-unknown": {Err: fmt.Errorf("%w: %w", store.ErrGaveUp, store.ErrOutcomeUnknown)},
		"denied":          {}, // no limit was applied
		"allowed":         {Decisions: []store.Decision{{Allowed: true}}},
	} {
		if got := call.Outcome(); got != want {
			t.Errorf("%+v is %q, want %q", call, got, want)
		}
	}
}

// A breaker and a failure policy inside report to the same observer.
func TestAnObserverIsToldOfTheBreakerAndOfFailures(t *testing.T) {
	backend := &fakeStore{err: store.ErrUnavailable}
	var told []string
	own := 0
	observer := layers.Observer{
		OnCall: func(_ context.Context, call layers.Call) {
			told = append(told, call.Outcome()+" by "+call.Decisions[0].DecidedBy.String())
		},
		OnFailure: func(err error) { told = append(told, "failure: "+err.Error()) },
		OnBreaker: func(change layers.BreakerChange) { told = append(told, change.To.String()) },
	}
	breaker := observer.Breaker(layers.Breaker{Failures: 1, OnChange: func(layers.BreakerChange) { own++ }})
	var wrapped store.Store = layers.WithBreaker(backend, breaker)
	wrapped = layers.WithFailure(wrapped, layers.Failure{Policy: store.AllowOnError, OnFailure: observer.Failure()})
	wrapped = layers.WithObserver(wrapped, observer)
	decide(t, wrapped, store.Take, asking("user:42", "1/1s", 1))
	if got := strings.Join(told, "; "); got != "open; failure: store unavailable; allowed by failure-policy" || own != 1 {
		t.Errorf("told %s; the breaker's own function %d times", got, own)
	}
}

func TestAnObserverThatIsNotSetIsNone(t *testing.T) {
	backend := memorystore.New()
	if layers.WithObserver(backend, layers.Observer{}) != store.Store(backend) {
		t.Error("it wraps the store")
	}
	if layers.Observer.Failure(layers.Observer{}) != nil || layers.Observer.Breaker(layers.Observer{}, layers.Breaker{}).OnChange != nil {
		t.Error("it wants to be told")
	}
}

// A panic in any function changes no decision, and is reported once.
func TestAnObserversPanicReachesNobody(t *testing.T) {
	panicsAt := 0
	observer := layers.Observer{
		OnCall:    func(context.Context, layers.Call) { panicsAt++; panic("a bug in OnCall\nof two lines") },
		OnFailure: func(error) { panic("a bug in OnFailure") },
		OnBreaker: func(layers.BreakerChange) { panic("a bug in OnBreaker") },
	}
	var told []string
	observer.OnPanic = func(err error) { told = append(told, err.Error()) }
	observed := layers.WithObserver(memorystore.New(), observer)
	for n := range 2 {
		if d := decide(t, observed, store.Take, asking("user:42", "1/1h", 1))[0]; d.Allowed != (n == 0) {
			t.Errorf("%+v", d)
		}
	}
	observer.Failure()(store.ErrUnavailable)
	observer.Breaker(layers.Breaker{}).OnChange(layers.BreakerChange{})
	want := "internal error: a bug in OnCall; internal error: a bug in OnFailure; internal error: a bug in OnBreaker"
	if got := strings.Join(told, "; "); got != want || panicsAt != 2 {
		t.Errorf("told %q, want %q; OnCall was called %d times", got, want, panicsAt)
	}

	observer.OnPanic = func(error) { panic("a bug in OnPanic") }
	decide(t, layers.WithObserver(memorystore.New(), observer), store.Take, asking("user:42", "1/1h", 1))

	observer.OnPanic = nil
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	observed = layers.WithObserver(memorystore.New(), observer)
	for range 3 {
		decide(t, observed, store.Take, asking("user:42", "1/1h", 1))
	}
	if lines := strings.Count(log.String(), "an observer panicked"); lines != 1 || !strings.Contains(log.String(), "a bug in OnCall") {
		t.Errorf("logged %d times: %s", lines, log.String())
	}
}
