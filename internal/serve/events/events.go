// Package events reports to operators what happens while the server decides: in its log, and as facts for /readyz.
package events

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// quiet is the time without a failure after which an outage is over.
const quiet = 10 * time.Second

// Options are the parts of a Log.
type Options struct {
	Log *slog.Logger
	Now func() time.Time
	// Describe returns an error in one line without secrets.
	Describe func(error) string
}

// Log reports events. It is safe for concurrent use.
type Log struct {
	Options

	outage atomic.Pointer[error] // why a policy has decided without the store, the last time

	mu       sync.Mutex
	troubles map[cause]*Trouble
	shards   map[string]Trouble // the shards of the store whose breaker is not closed
	// Why overrides cannot be read, and denials not written; nil if they can.
	overrides, denials *Trouble
}

// cause is what happens again and again under a policy. The kind is that of the errors that callers get instead of
// decisions, the label of limitctl_errors_total; it is empty if the policy decides without the store.
type cause struct{ policy, kind string }

// Trouble is a time in which something is out of order. It is reported at its beginning and at its end.
type Trouble struct {
	Part    string    `json:"part,omitempty"` // the shard of the store, if it has some
	Policy  string    `json:"policy,omitempty"`
	Kind    string    `json:"kind,omitempty"` // see cause
	OnError string    `json:"on_error,omitempty"`
	Since   time.Time `json:"since"`
	Count   int64     `json:"count,omitempty"` // how often it happened
	Error   string    `json:"error"`
	last    time.Time
}

// New returns a Log without events.
func New(o Options) *Log {
	return &Log{Options: o, troubles: map[cause]*Trouble{}, shards: map[string]Trouble{}}
}

// Failure notes why a policy decides without the store. Decision reports it.
func (l *Log) Failure(err error) { l.outage.Store(&err) }

// gaveUp is the kind of errors of callers that did not wait for the store, which may have charged them.
const gaveUp = "gave-up-unknown"

// failed reports an error that a caller got instead of a decision, once at its beginning. Refresh reports its end.
// Mistakes of callers are not reported, nor is the time that they give the server; it is a warning if units may be
// charged for a call that nobody waited for.
func (l *Log) failed(ask *engine.Ask, err error) {
	call := layers.Call{Err: err}
	kind := call.Outcome()
	if kind != "invalid" && kind != "gave-up" && !errors.Is(err, engine.ErrUnknownPolicy) {
		l.count(cause{cmp.Or(ask.Policy, "(none)"), kind}, "", err) // as in the metrics
	}
}

// count counts an event, and reports the first.
func (l *Log) count(c cause, onError string, err error) {
	now := l.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.troubles[c]
	if t == nil {
		t = &Trouble{Policy: c.policy, Kind: c.kind, OnError: onError, Since: now.UTC(), Error: l.Describe(err)}
		if c.kind != "" { // in store keys the subject is in braces
			t.Error = braces().ReplaceAllString(t.Error, ":{…}")
		}
		l.troubles[c] = t
		level, text := slog.LevelError, "callers get errors instead of decisions"
		switch c.kind {
		case gaveUp:
			level, text = slog.LevelWarn, "callers give up before the store answers, and units may be charged"
		case "":
			level, text = slog.LevelWarn, "the store does not decide, the policy does"
		}
		labels := append(t.labels(), "error", t.Error)
		if foreign := (*store.ForeignError)(nil); errors.As(err, &foreign) && !foreign.IsDamaged() {
			labels = append(labels, "mend", shell.Unlink(foreign.StoreKey)) // whole: another program made this key
		}
		l.Log.Log(context.Background(), level, text, labels...)
	}
	t.last = now
	t.Count++
}

var braces = texts.Regexp(`:\{[^}]*(\}|$)`)

func (t *Trouble) labels() []any {
	if t.Kind == "" {
		return []any{"policy", t.Policy, "on_error", t.OnError}
	}
	return []any{"policy", t.Policy, "kind", t.Kind}
}

// Refresh reports outages and errors that are over.
func (l *Log) Refresh(context.Context, bool) {
	now := l.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, t := range l.troubles {
		if now.Sub(t.last) < quiet {
			continue
		}
		delete(l.troubles, c) // the next one begins a new trouble
		over, counts := "no caller got such an error for ", "errors"
		if c.kind == "" {
			over, counts = "no decision was made without the store for ", "without_store"
		}
		l.Log.Info(over+quiet.String(), append(t.labels(), counts, t.Count,
			"lasted", t.last.Sub(t.Since).Round(time.Millisecond).String())...)
	}
}

// Breaker reports a change of the store's breaker. Recovery checks that fail are reported at the level debug.
func (l *Log) Breaker(change limiter.BreakerChange) {
	shard := change.Shard
	log := l.Log
	if shard != "" {
		log = log.With("part", shard)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before, broken := l.shards[shard]
	switch change.To {
	case limiter.BreakerClosed:
		delete(l.shards, shard)
		if broken {
			log.Info("the breaker is closed: the store is called again", "open_for",
				change.At.Sub(before.Since).Round(time.Millisecond).String())
		}
	case limiter.BreakerOpen:
		reason := "unknown"
		if change.Reason != nil {
			reason = l.Describe(change.Reason)
		}
		if broken {
			log.Debug("the breaker stays open", "error", reason)
			return
		}
		l.shards[shard] = Trouble{Part: shard, Since: change.At.UTC(), Error: reason}
		log.Warn("the breaker is open: the store is not called", "error", reason)
	case limiter.BreakerHalfOpen: // the result of the recovery check is reported
	}
}

// NewBreaker forgets the state of the breaker, which a new, closed one has replaced.
func (l *Log) NewBreaker() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.shards)
}

// Decision reports errors that callers get, and policies that decide without the store.
func (l *Log) Decision(ask *engine.Ask, answer *decision.Answer, err error) {
	if err != nil {
		l.failed(ask, err)
	} else if why := l.outage.Load(); why != nil && slices.ContainsFunc(answer.Decisions, withoutStore) {
		l.count(cause{policy: ask.Policy}, answer.Policy.OnError.String(), *why)
	}
}

// withoutStore reports whether a failure policy has decided.
func withoutStore(d store.Decision) bool {
	return d.DecidedBy == store.DecidedByFailurePolicy || d.DecidedBy == store.DecidedByLocal
}

// State is the state of the store, for operators.
type State struct {
	// Breaker has the shards of the store whose breaker is open.
	Breaker []Trouble `json:"breaker_open,omitempty"`
	// Without are the policies that decide without the store.
	Without []Trouble `json:"without_store,omitempty"`
	// Errors are the errors that callers get instead of decisions.
	Errors []Trouble `json:"errors,omitempty"`
	// Overrides says why the known overrides are out of date.
	Overrides *Trouble `json:"overrides_stale,omitempty"`
	// Denials says why denials are not written to the store.
	Denials *Trouble `json:"denials_stale,omitempty"`
}

// State returns the state of the store. ok reports that the store decides as operators have configured it, as far
// as is known. Errors that callers caused are left out.
func (l *Log) State() (ok bool, state State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, shard := range slices.Sorted(maps.Keys(l.shards)) {
		state.Breaker = append(state.Breaker, l.shards[shard])
	}
	state.Overrides, state.Denials = l.overrides, l.denials
	for _, t := range l.troubles {
		switch t.Kind {
		case "":
			state.Without = append(state.Without, *t)
		case gaveUp:
		default:
			state.Errors = append(state.Errors, *t)
		}
	}
	for _, list := range [][]Trouble{state.Without, state.Errors} {
		slices.SortFunc(list, func(a, b Trouble) int {
			return cmp.Or(strings.Compare(a.Policy, b.Policy), strings.Compare(a.Kind, b.Kind))
		})
	}
	return len(state.Breaker)+len(state.Without)+len(state.Errors) == 0 && state.Overrides == nil, state
}

// Overrides reports why overrides cannot be read, and nil when they can be read again. The known ones apply until their
// ends.
func (l *Log) Overrides(err error) {
	l.report(&l.overrides, err, "operators' overrides are out of date", "operators' overrides are up to date again")
}

// OverridesStale reports whether overrides cannot be read.
func (l *Log) OverridesStale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overrides != nil
}

// Denials reports why denials cannot be written, and nil when they can be written again.
func (l *Log) Denials(err error) {
	l.report(&l.denials, err, "denials cannot be recorded", "denials can be recorded again")
}

func (l *Log) report(what **Trouble, err error, begins, ends string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		*what = &Trouble{Since: l.Now().UTC(), Error: l.Describe(err)}
		l.Log.Warn(begins, "error", (*what).Error)
	case *what != nil:
		l.Log.Info(ends, "lasted", l.Now().Sub((*what).Since).Round(time.Millisecond).String())
		*what = nil
	}
}
