// Package events reports to operators what happens while the server decides: in its log, with a line for each
// request only at the level debug, and as facts for /readyz.
package events

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// quiet is the time without a failure after which an outage is over.
	quiet = 10 * time.Second
	// repeat is the time between two reports of an outage that goes on.
	repeat = time.Minute
)

// Options are the parts of a Log.
type Options struct {
	Log *slog.Logger
	Now func() time.Time
	// Describe returns an error in one line without secrets.
	Describe func(error) string
	// Subjects: the log may name subjects.
	Subjects bool
	// Redis: the store is in Redis, where a value of another type can be deleted.
	Redis bool
}

// Log reports events. It is safe for concurrent use.
type Log struct {
	Options
	outages sync.Map // of *outage by the policy's name
	errors  sync.Map // of *failing by errorsOf

	mu     sync.Mutex
	shards map[string]brokenShard // the shards of the store whose breaker is not closed
	// The time and the cause of a fault; nil if there is none.
	overrides, denials *Stale
}

// outage: a policy decides without the store.
type outage struct {
	policy string
	// decides is the policy's on_error.
	decides string
	spell   // of decisions without the store
}

type brokenShard struct {
	since  time.Time
	reason string
}

// New returns a Log without events.
func New(o Options) *Log { return &Log{Options: o, shards: map[string]brokenShard{}} }

// Failure reports that a policy decided without the store, once at the beginning. Refresh reports the rest.
func (l *Log) Failure(p *policy.Policy, err error) {
	found, known := l.outages.Load(p.Name)
	if !known {
		found, _ = l.outages.LoadOrStore(p.Name, &outage{policy: p.Name, decides: p.OnError.String()})
	}
	if found.(*outage).count(l.Now()) {
		l.Log.Warn("the store does not decide, the policy does", "policy", p.Name, "on_error", p.OnError.String(), "error", l.Describe(err))
	}
}

// Refresh reports outages and errors that are over, and regularly those that go on. It is for one goroutine.
func (l *Log) Refresh(context.Context, bool) {
	now := l.Now()
	l.refreshErrors(now)
	l.outages.Range(func(name, found any) bool {
		o := found.(*outage)
		switch news, count := o.refresh(now); news {
		case isOver:
			l.outages.Delete(name) // the next failure begins a new outage
			l.Log.Info("no decision was made without the store for "+quiet.String(), "policy", o.policy, "on_error", o.decides,
				"without_store", count, "lasted", o.lasted().String())
		case goesOn:
			l.Log.Warn("the store still does not decide, the policy does", "policy", o.policy, "on_error", o.decides,
				"without_store", count, "since", o.begun())
		case nothing:
		}
		return true
	})
}

// Breaker reports a change of the store's breaker. Recovery checks that fail are reported at the level debug.
func (l *Log) Breaker(change layers.BreakerChange) {
	shard := change.Shard
	log := l.Log
	if shard != "" {
		log = log.With("part", shard)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before, broken := l.shards[shard]
	switch change.To {
	case layers.BreakerClosed:
		delete(l.shards, shard)
		if broken {
			log.Info("the breaker is closed: the store is called again", "open_for",
				change.At.Sub(before.since).Round(time.Millisecond).String())
		}
	case layers.BreakerOpen:
		reason := "unknown"
		if change.Reason != nil {
			reason = l.Describe(change.Reason)
		}
		if broken {
			log.Debug("the breaker stays open", "error", reason)
			return
		}
		l.shards[shard] = brokenShard{change.At, reason}
		log.Warn("the breaker is open: the store is not called", "error", reason)
	case layers.BreakerHalfOpen: // the result of the recovery check is reported
	}
}

// NewBreaker forgets the state of the breaker, which a new, closed one has replaced.
func (l *Log) NewBreaker() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.shards)
}

// Decision reports errors that callers get, and each ask at the level debug.
func (l *Log) Decision(ask *engine.Ask, answer *decision.Answer, err error, took time.Duration) {
	if err != nil {
		l.failed(ask, err)
	}
	if !l.Log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	args := []any{"operation", ask.Op.String(), "policy", ask.Policy, "took", took.String()}
	if l.Subjects {
		args = append(args, "subject", subject(ask))
	}
	message := "allowed"
	switch {
	case err != nil:
		message = "not decided"
		args = append(args, "error", l.Describe(err))
	default:
		sum := store.Summarize(answer.Decisions)
		args = append(args, "decided_by", sum.DecidedBy.String())
		if !sum.Allowed {
			message = "denied"
			args = append(args, "denied_by", answer.DeniedBy(), "retry_after", sum.RetryAfter.String())
		}
	}
	l.Log.Debug(message, args...)
}

// subject returns the subject of an ask as the caller wrote it.
func subject(ask *engine.Ask) string {
	if ask.Policy == "" {
		return ask.Key
	}
	return ask.Attributes.Text()
}

// State is the state of the store, for operators.
type State struct {
	// Breaker has the shards of the store whose breaker is open; the name is empty for a store without shards.
	Breaker []OpenBreaker `json:"breaker_open,omitempty"`
	// Without are the policies that decide without the store.
	Without []Outage `json:"without_store,omitempty"`
	// Errors are the errors that callers get instead of decisions.
	Errors []Errors `json:"errors,omitempty"`
	// Overrides says why the known overrides are out of date.
	Overrides *Stale `json:"overrides_stale,omitempty"`
	// Denials says why denials are not written to the store.
	Denials *Stale `json:"denials_stale,omitempty"`
}

// OpenBreaker is a shard of the store that is not called.
type OpenBreaker struct {
	Part  string    `json:"part,omitempty"`
	Since time.Time `json:"since"`
	Error string    `json:"error"`
}

// Outage is a policy that decides without the store.
type Outage struct {
	Policy    string    `json:"policy"`
	OnError   string    `json:"on_error"`
	Since     time.Time `json:"since"`
	Decisions int64     `json:"decisions"`
}

// State returns the state of the store. ok reports that the store decides as operators have configured it, as far
// as is known.
func (l *Log) State() (ok bool, state State) {
	l.mu.Lock()
	for _, shard := range slices.Sorted(maps.Keys(l.shards)) {
		state.Breaker = append(state.Breaker, OpenBreaker{shard, l.shards[shard].since.UTC(), l.shards[shard].reason})
	}
	state.Overrides, state.Denials = l.overrides, l.denials
	l.mu.Unlock()
	l.outages.Range(func(_, found any) bool {
		if o := found.(*outage); o.active.Load() {
			state.Without = append(state.Without, Outage{o.policy, o.decides, o.begun(), o.total.Load()})
		}
		return true
	})
	slices.SortFunc(state.Without, func(a, b Outage) int { return strings.Compare(a.Policy, b.Policy) })
	state.Errors = l.callers()
	return len(state.Breaker)+len(state.Without)+len(state.Errors) == 0 && state.Overrides == nil, state
}
