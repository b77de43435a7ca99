package limiter

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Option adds a layer around the store of a [Limiter]. The order of the arguments of [New] does not matter. The
// layers, from the outside in:
//
//	Observer      sees what callers see
//	Around        a wrapper of your own
//	DenialLog     counts who is denied
//	Overrides     applies the overrides of operators
//	DenialMemory  repeats denials without a round trip
//	FailOpen, FailClosed, FailLocal  decide while the store is away
//	Leases        take units of busy keys in advance
//	Breaker       stops calling a store that is away
//	Timeout       bounds the time of each call to the store
type Option interface {
	// add puts the option into b, or says what is wrong with it.
	add(b *builder) error
}

// builder collects the options of a limiter.
type builder struct {
	store     store.Store
	given     map[string]bool
	layers    layers.Layers
	overrides bool
	denialLog bool
	noWrapper bool // the function of Around has returned nil
}

// once returns an error if the option is given twice, or has a number or a time that nobody can mean.
func (b *builder) once(option string, number int64, times ...time.Duration) error {
	if b.given[option] {
		return store.Invalidf("the option %s is given twice", option)
	}
	b.given[option] = true
	if number < 0 {
		return store.Invalidf("the option %s has the negative number %d; a number is 0, for its default, or more",
			option, number)
	}
	for _, t := range times {
		if t != 0 && t < shortest {
			return store.Invalidf("the option %s has the time %s; a time is 0, for its default, or at least %s", option,
				t, shortest)
		}
	}
	return nil
}

// onceWithTables is once for an option that needs a store with overrides and denials.
func (b *builder) onceWithTables(option string) error {
	if _, has := admin.TablesOf(b.store); !has {
		return store.Invalidf("the store keeps no overrides and denials for the option %s", option)
	}
	return b.once(option, 0)
}

// failure is FailOpen, FailClosed or FailLocal.
type failure struct {
	policy   store.FailurePolicy
	share    float64
	inMemory bool // of the limiter
	local    store.Store
}

// FailOpen lets requests through while the store is away. Such decisions are Unguarded.
func FailOpen() Option { return failure{policy: store.AllowOnError} }

// FailClosed denies requests while the store is away. Such decisions are Unguarded.
func FailClosed() Option { return failure{policy: store.DenyOnError} }

// FailLocal decides in the memory of this process while the store is away, by a share of each limit, above 0 and at
// most 1. In an outage n processes let through at most n × share × limit, and each at least one unit.
func FailLocal(share float64) Option {
	return failure{policy: store.LocalOnError, share: share, inMemory: true}
}

// FailLocalIn is [FailLocal] with another store, such as a file that the processes of a machine share. Closing the
// limiter leaves it open.
func FailLocalIn(local Store, share float64) Option {
	return failure{policy: store.LocalOnError, share: share, local: local}
}

func (f failure) add(b *builder) error {
	if err := b.once("FailOpen, FailClosed or FailLocal", 0); err != nil {
		return err
	}
	b.layers.Failure = layers.Failure{Policy: f.policy, Fallback: f.local}
	if f.policy != store.LocalOnError {
		return nil
	}
	if f.inMemory {
		b.layers.Failure.Fallback = memorystore.New(memorystore.WithMaxKeys(layers.FallbackKeys))
	} else if sys.IsNil(f.local) {
		return store.Invalidf("the store of FailLocalIn is nil")
	}
	if !(f.share > 0 && f.share <= 1) { // NaN included
		return store.Invalidf("the share %v of FailLocal is out of range; it is above 0 and at most 1", f.share)
	}
	b.layers.Failure.Share = store.Share(max(1, math.Round(f.share*float64(store.WholeShare))))
	return nil
}

// Around puts your own wrapper around everything but the [Observer]. The function gets the inner store and returns
// the wrapper. The wrapper's Close has no effect on the inner store. See package store.
func Around(wrap func(Store) Store) Option { return around(wrap) }

type around func(Store) Store

func (a around) add(b *builder) error {
	if a == nil {
		return store.Invalidf("the function of Around is nil")
	}
	b.layers.Around = func(inner Store) Store {
		if wrapper := a(inner); !sys.IsNil(wrapper) {
			return wrapper
		}
		b.noWrapper = true
		return inner
	}
	return b.once("Around", 0)
}

// Timeout bounds the time of a call to the store. After it the store counts as away. The deadline of the caller's
// context applies, too.
type Timeout time.Duration

func (t Timeout) add(b *builder) error {
	if time.Duration(t) < shortest {
		return store.Invalidf("the Timeout %s is below %s, in which no store answers", time.Duration(t), shortest)
	}
	b.layers.Budget = time.Duration(t)
	return b.once("Timeout", 0)
}

// shortest is the least time of an option. Less is most likely a number without its unit.
const shortest = time.Millisecond

// Breaker stops calling a store that is away, so that callers do not each wait for a time-out. In a Cluster each master
// has its own. [store.Breaker] explains the fields.
type Breaker store.Breaker

func (o Breaker) add(b *builder) error {
	b.layers.Breaker = (*store.Breaker)(&o)
	return b.once("Breaker", int64(o.Failures), o.Slow, o.Pause, o.MaxPause)
}

// Leases take units of a busy key in advance, and hand them out without a round trip. They never let through more than
// the limit, but can deny units that other processes hold: at most Max per process. They do not apply to calls of
// several requests, requests with a token, a [SlidingLog] or a [LeakyBucket]. [store.Leases] explains the fields.
type Leases store.Leases

func (o Leases) add(b *builder) error {
	b.layers.Leases = (*store.Leases)(&o)
	return b.once("Leases", o.Max, o.Term)
}

// DenialMemory repeats the store's denials without a round trip until their RetryAfter is over. It notices up to
// MaxStale late when another process gives units back. [store.DenialMemory] explains the fields.
type DenialMemory store.DenialMemory

func (o DenialMemory) add(b *builder) error {
	b.layers.DenialMemory = (*store.DenialMemory)(&o)
	return b.once("DenialMemory", int64(o.Keys), o.MaxStale)
}

// Overrides apply the overrides of operators (`limitctl override`, `block` and `exempt`) within about a second. The
// store has to keep overrides, as the stores of this module do.
type Overrides struct{}

func (o Overrides) add(b *builder) error {
	b.overrides = true
	return b.onceWithTables("Overrides")
}

// DenialLog counts in the store denials per key: `limitctl denials` and the dashboard show that. It writes in the
// background, and when the limiter is closed. The store has to keep denials, as the stores of this module do.
type DenialLog struct{}

func (o DenialLog) add(b *builder) error {
	b.denialLog = true
	return b.onceWithTables("DenialLog")
}

// BreakerState is the state of a [Breaker].
type BreakerState = store.BreakerState

const (
	// BreakerClosed: calls reach the store.
	BreakerClosed BreakerState = store.BreakerClosed
	// BreakerOpen: calls fail at once with an [ErrUnavailable].
	BreakerOpen BreakerState = store.BreakerOpen
	// BreakerHalfOpen: a recovery check is under way, and other calls fail as if it were open.
	BreakerHalfOpen BreakerState = store.BreakerHalfOpen
)

// BreakerChange is a change of a breaker's state: its Shard, From, To, At and Reason.
type BreakerChange = store.BreakerChange

// Observer receives what a limiter does, for metrics, logs and traces. Each function is optional. It is called before
// the caller gets the answer, and several can run at once, so it has to be quick. A panic in it is logged once, and
// does not reach the caller.
type Observer struct {
	// OnCall gets each call as its caller sees it, except calls that are refused at once: without a request or a
	// name, or after Close.
	OnCall func(ctx context.Context, call Call)
	// OnStoreCall gets each call that reaches the store.
	OnStoreCall func(ctx context.Context, call Call)
	// OnFailure gets each error of the store for which [FailOpen], [FailClosed] or [FailLocal] decided. OnCall gets
	// no error then.
	OnFailure func(err error)
	// OnBreaker gets the changes of the breaker, one after the other.
	OnBreaker func(change BreakerChange)
	// OnOverrides gets the error when overrides can no longer be read, once, and nil when they can be read again.
	OnOverrides func(err error)
	// OnDenialLog gets the error when denials can no longer be written, once, and nil when they can be written
	// again.
	OnDenialLog func(err error)
}

func (o Observer) add(b *builder) error {
	b.layers.Observer = &layers.Observer{
		OnCall: callsOf(o.OnCall), OnStoreCall: callsOf(o.OnStoreCall), OnFailure: o.OnFailure, OnBreaker: o.OnBreaker,
		OnOverrides: o.OnOverrides, OnDenialLog: o.OnDenialLog,
	}
	return b.once("Observer", 0)
}

// Call is a call of a limiter and its answer.
type Call struct {
	// Operation is "take" (also for Wait and Reserve), "take of what fits", "peek", "charge", "refund",
	// "settlement", or "adjustment" for a Reset.
	Operation string
	// Outcome is a short word for metrics, such as "allowed", "denied" or "unavailable".
	Outcome   string
	Requests  []Request
	Decisions Decisions
	Err       error
	// Took is the duration of the call.
	Took time.Duration
}

// callsOf returns a function that passes the calls of layers to f.
func callsOf(f func(context.Context, Call)) func(context.Context, layers.Call) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, c layers.Call) {
		call := Call{Operation: c.Op.String(), Outcome: c.Outcome(), Err: c.Err, Took: c.Took,
			Requests: make([]Request, len(c.Requests))}
		for i := range c.Requests {
			call.Requests[i] = RequestOf(c.Requests[i])
		}
		if c.Err == nil {
			call.Decisions = DecisionsOf(c.Decisions)
		}
		f(ctx, call)
	}
}

// stack puts the layers of options around the store.
func (b *builder) stack(options []Option) (Store, error) {
	if len(options) == 0 {
		return b.store, nil
	}
	for i, option := range options {
		if option == nil {
			return nil, store.Invalidf("option %d of %d of the limiter is nil", i+1, len(options))
		}
		if err := option.add(b); err != nil {
			return nil, err
		}
	}
	shared, has := store.As[*layers.Shared](b.store)
	if !has {
		shared = &layers.Shared{}
	}
	if b.overrides {
		if b.layers.Overrides = shared.Watch; !has {
			b.layers.Overrides = layers.WatchOverrides(b.store, b.layers.Env)
		}
	}
	if b.denialLog {
		if b.layers.DenialLog = shared.Denials; !has {
			b.layers.DenialLog = layers.CollectDenials(b.store, b.layers.Observer)
		}
	}
	stacked := layers.Stack(store.Wrap(keptOpen{b.store}, b.store), b.layers)
	if b.noWrapper {
		return nil, errors.Join(store.Invalidf("the function of Around has returned nil"), stacked.Close())
	}
	return stacked, nil
}
