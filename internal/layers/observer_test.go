package layers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestOutcomes(t *testing.T) {
	for want, call := range map[string]layers.Call{
		"invalid": {Err: store.Invalidf("no")}, "unavailable": {Err: store.ErrUnavailable}, "refused": {
			Err: store.ErrRefused},
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

// A breaker and a failure policy report to the same observer. A panic in any of its functions changes no decision, and
// is logged once.
func TestOneObserverOfAllLayers(t *testing.T) {
	var heard []string
	panics := false
	hear := func(text string) {
		if heard = append(heard, text); panics {
			panic("a bug\nof two lines")
		}
	}
	observer := &layers.Observer{
		OnCall: func(_ context.Context, call layers.Call) {
			hear(call.Outcome() + " by " + call.Decisions[0].DecidedBy.String())
		},
		OnFailure: func(err error) { hear("failure: " + err.Error()) },
		OnBreaker: func(change store.BreakerChange) { hear(change.To.String()) },
	}
	ask := func() {
		t.Helper()
		heard = nil
		stack := layers.Stack(&fakeStore{err: store.ErrUnavailable}, layers.Layers{Breaker: &store.Breaker{Failures: 1},
			Failure: layers.Failure{Policy: store.AllowOnError}, Env: layers.Env{Observer: observer}})
		if d := decide(t, stack, store.Take, asking("user:42", "1/1s", 1))[0]; !d.Allowed {
			t.Errorf("decided %+v", d)
		}
		if got := strings.Join(heard, "; "); got != "open; failure: store unavailable; allowed by failure-policy" {
			t.Errorf("heard %s", got)
		}
	}
	ask()
	panics = true
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	ask()
	if lines := strings.Count(log.String(), "an observer panicked"); lines != 1 ||
		!strings.Contains(log.String(), "a bug") {
		t.Errorf("logged %d times: %s", lines, log.String())
	}
}
