package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func newLog() (l *Log, text *bytes.Buffer, now *time.Time) {
	text, now = new(bytes.Buffer), new(time.Time)
	*now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l = New(Options{Log: slog.New(slog.NewTextHandler(text, nil)),
		Now:      func() time.Time { return *now },
		Describe: func(err error) string { return "described " + err.Error() }})
	return l, text, now
}

// An outage is reported at its beginning, and at its end with a count of decisions.
func TestAnOutageIsReported(t *testing.T) {
	l, text, now := newLog()
	p := &policy.Policy{Name: "login", OnError: store.AllowOnError}
	for second := range 150 {
		for range 10 {
			l.Failure(errors.New("away"))
			l.Decision(&engine.Ask{Policy: p.Name}, &decision.Answer{Policy: p, Decisions: []store.Decision{
				{Allowed: true, Unguarded: true, DecidedBy: store.DecidedByFailurePolicy}}}, nil)
		}
		*now = now.Add(time.Second)
		if l.Refresh(context.Background(), false); second == 0 {
			if ok, state := l.State(); ok || len(state.Without) != 1 || state.Without[0].Count != 10 {
				t.Errorf("the state is %+v", state)
			}
		}
	}
	*now = now.Add(quiet)
	l.Refresh(context.Background(), false)
	if ok, state := l.State(); !ok {
		t.Errorf("once it is over the state is %+v", state)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	wants := []string{"described away", "without_store=1500 lasted=2m29s"}
	if len(lines) != len(wants) {
		t.Fatalf("the log is\n%s", text)
	}
	for i, want := range wants {
		if !strings.Contains(lines[i]+" ", want) || !strings.Contains(lines[i], "policy=login on_error=allow") {
			t.Errorf("line %d lacks %s: %s", i+1, want, lines[i])
		}
	}
}

// A breaker is reported when it opens and when it closes, but not at each recovery check.
func TestABreakerIsReported(t *testing.T) {
	l, text, now := newLog()
	change := func(from, to limiter.BreakerState) {
		l.Breaker(limiter.BreakerChange{From: from, To: to, At: *now, Reason: errors.New("away")})
		*now = now.Add(time.Second)
	}
	change(limiter.BreakerClosed, limiter.BreakerOpen)
	for range 5 {
		change(limiter.BreakerOpen, limiter.BreakerHalfOpen)
		change(limiter.BreakerHalfOpen, limiter.BreakerOpen)
	}
	if ok, state := l.State(); ok || len(state.Breaker) != 1 || state.Breaker[0].Error != "described away" {
		t.Errorf("the state is %+v", state)
	}
	change(limiter.BreakerHalfOpen, limiter.BreakerClosed)
	if n := strings.Count(text.String(), "\n"); n != 2 || !strings.Contains(text.String(), "open_for=11s") {
		t.Errorf("the log is\n%s", text)
	}
	change(limiter.BreakerClosed, limiter.BreakerOpen)
	l.NewBreaker()
	if ok, state := l.State(); !ok {
		t.Errorf("with a new breaker the state is %+v", state)
	}
}

// Errors of callers are reported, whatever on_error says: a store that refuses is called again and again, and no
// policy decides in its place.
func TestErrorsOfCallersAreReported(t *testing.T) {
	l, text, now := newLog()
	ask, plain := &engine.Ask{Policy: "login"}, &engine.Ask{Key: "user:42"}
	for range 90 {
		for range 10 {
			l.Decision(ask, &decision.Answer{}, fmt.Errorf("%w: out of memory at rl:{user:42}:x", store.ErrRefused))
			l.Decision(ask, &decision.Answer{}, fmt.Errorf("%w: cost", store.ErrInvalid))
			l.Decision(ask, &decision.Answer{}, engine.ErrUnknownPolicy)
			l.Decision(ask, &decision.Answer{}, store.UnknownToken("no such"))
			l.Decision(ask, &decision.Answer{}, store.ErrGaveUp)
		}
		*now = now.Add(time.Second)
		l.Refresh(context.Background(), false)
	}
	l.Decision(plain, &decision.Answer{}, store.ErrUnavailable)
	l.Decision(&engine.Ask{Policy: "a"}, &decision.Answer{}, &store.ForeignError{
		StoreKey: "rl:{it's}:x", Holds: "a list"})
	ok, state := l.State()
	if ok || len(state.Errors) != 3 || state.Errors[0].Policy != "(none)" || state.Errors[2].Count != 900 ||
		!strings.Contains(state.Errors[2].Error, "out of memory at rl:{…}:x") {
		t.Errorf("the state is %+v", state)
	}
	*now = now.Add(quiet)
	l.Refresh(context.Background(), false)
	if ok, state := l.State(); !ok {
		t.Errorf("once it is over the state is %+v", state)
	}
	if strings.Contains(text.String(), "user:42") || strings.Count(text.String(), "\n") != 6 {
		t.Errorf("the log is\n%s", text)
	}
	for _, want := range []string{"kind=refused error=", "policy=login kind=refused errors=900 lasted=1m29s",
		"policy=(none) kind=unavailable",
		`policy=a kind=foreign error="described key \"rl:{…}:x\" holds a list; it was left as it is"` +
			` mend="redis-cli UNLINK 'rl:{it'\\''s}:x'"` + "\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, text)
		}
	}
}

// A caller that gives up after the store was called may have been charged. That is a warning, and no fault of the
// server or the store.
func TestCallersThatGiveUpAreAWarning(t *testing.T) {
	l, text, now := newLog()
	for range 90 {
		l.Decision(&engine.Ask{Policy: "login"}, &decision.Answer{},
			fmt.Errorf("%w: %w", store.ErrGaveUp, store.ErrOutcomeUnknown))
		*now = now.Add(time.Second)
		l.Refresh(context.Background(), false)
	}
	if ok, state := l.State(); !ok || len(state.Errors) != 0 {
		t.Errorf("the state is %+v", state)
	}
	if n := strings.Count(text.String(), "level=WARN"); n != 1 || strings.Count(text.String(), "\n") != n ||
		strings.Count(text.String(), "give up before the store answers") != n ||
		strings.Count(text.String(), "kind=gave-up-unknown") != n {
		t.Errorf("the log is\n%s", text)
	}
}

// Overrides that cannot be read are reported until they can be read again, since new overrides have no effect
// meanwhile. Denials that cannot be written are reported, and harm nobody.
func TestWhatIsStaleIsReported(t *testing.T) {
	l, text, now := newLog()
	l.Overrides(nil)
	l.Denials(errors.New("no right"))
	if ok, state := l.State(); !ok || state.Denials == nil || l.OverridesStale() {
		t.Errorf("without denials the state is %+v", state)
	}
	l.Overrides(errors.New("away"))
	if ok, state := l.State(); ok || state.Overrides == nil || state.Overrides.Error != "described away" ||
		!l.OverridesStale() {
		t.Errorf("without overrides the state is %+v", state)
	}
	*now = now.Add(time.Minute)
	l.Overrides(nil)
	l.Denials(nil)
	if ok, state := l.State(); !ok || state.Overrides != nil || state.Denials != nil || l.OverridesStale() {
		t.Errorf("in the end the state is %+v", state)
	}
	if strings.Count(text.String(), "lasted=1m0s") != 2 || strings.Count(text.String(), "\n") != 4 {
		t.Errorf("the log is\n%s", text)
	}
}
