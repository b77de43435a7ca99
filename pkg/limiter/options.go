package limiter

import (
	"context"
	"math"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Option is a part of a [Limiter] around its store. The order in which options are given to [New]
// does not matter. From the outside they stand in this one:
//
//	Observer      sees what callers see
//	Around        a wrapper of your own
//	DenialLog     counts who is denied
//	Overrides     applies what operators say
//	DenialMemory  repeats denials without a round trip
//	FailOpen, FailClosed, FailLocal  decide while the store is away
//	Leases        take units of busy keys ahead
//	Breaker       stops asking a store that is away
//	Timeout       bounds the time of each call of the store
type Option interface {
	// add puts the option into b. The error says what is wrong with it.
	add(b *builder) error
}

// builder collects the options of a limiter.
type builder struct {
	store    store.Store
	given    map[string]bool
	layers   layers.Layers
	failure  layers.Failure
	breaker  *layers.Breaker
	observer Observer
}

// once notes that an option is given. It reports an option that is given twice or has a negative number.
func (b *builder) once(option string, numbers ...int64) error {
	if b.given[option] {
		return store.Invalidf("the option %s is given twice", option)
	}
	b.given[option] = true
	for _, number := range numbers {
		if number < 0 {
			return store.Invalidf("the option %s has the negative number %d; a number is 0, for its default, or more", option, number)
		}
	}
	return nil
}

// failure is FailOpen, FailClosed or FailLocal.
type failure struct {
	policy store.FailurePolicy
	share  float64
	local  store.Store
}

// FailOpen lets requests through while the store is away. Such decisions are Unguarded.
func FailOpen() Option { return failure{policy: store.AllowOnError} }

// FailClosed denies requests while the store is away. Such decisions are Unguarded.
func FailClosed() Option { return failure{policy: store.DenyOnError} }

// FailLocal decides in the memory of this process while the store is away, by a share of each
// limit, above 0 and at most 1. In an outage n processes let through at most n × share × limit,
// and each at least one unit. So a share of 1 ÷ n lets through about one limit in all.
func FailLocal(share float64) Option { return failure{policy: store.LocalOnError, share: share} }

// FailLocalIn is [FailLocal] in another store, such as a file that the processes of a machine share.
// It stays open when the limiter is closed.
func FailLocalIn(local Store, share float64) Option {
	if local == nil {
		return failure{} // not an option: New says so
	}
	return failure{policy: store.LocalOnError, share: share, local: local}
}

func (f failure) add(b *builder) error {
	if err := b.once("FailOpen, FailClosed or FailLocal"); err != nil {
		return err
	}
	if f.policy == store.FailOnError {
		return store.Invalidf("FailLocalIn has no store")
	}
	b.failure = layers.Failure{Policy: f.policy, Shadow: f.local}
	if f.policy != store.LocalOnError {
		return nil
	}
	if !(f.share > 0 && f.share <= 1) { // NaN included
		return store.Invalidf("the share %v of FailLocal is out of range; it is above 0 and at most 1", f.share)
	}
	b.failure.Share = store.Share(max(1, math.Round(f.share*float64(store.WholeShare))))
	return nil
}

// Around puts a wrapper of your own around everything but the [Observer]. It gets what it wraps
// and returns the wrapper, whose Close has no effect on that. See package store.
func Around(wrap func(Store) Store) Option { return around(wrap) }

type around func(Store) Store

func (a around) add(b *builder) error {
	if a == nil {
		return store.Invalidf("Around has no wrapper")
	}
	b.layers.Around = a
	return b.once("Around")
}

// Timeout bounds how long a call of the store takes. When it is over, the store is away. The
// deadline of a caller's own context counts besides.
type Timeout time.Duration

func (t Timeout) add(b *builder) error {
	if time.Duration(t) < shortest {
		return store.Invalidf("the Timeout %s is below %s, in which no store answers", time.Duration(t), shortest)
	}
	b.layers.Budget = func(s Store) Store { return store.WithBudget(s, time.Duration(t)) }
	return b.once("Timeout")
}

// shortest is the least time that a store gets. Less is a number without its unit.
const shortest = time.Millisecond

// Breaker stops asking a store that is away, so that callers do not wait for a time-out each. It
// opens after several failures in a row, and then one call in a while tries whether the store is
// back. A denial or a refusal is no failure. In a Cluster each master has a breaker of its own.
type Breaker struct {
	// Failures is how many failures in a row open it. The default is 5.
	Failures int
	// Slow is how long an answer may take before it counts as a failure. The default is 1 s. Let it
	// be less than the time that your callers have.
	Slow time.Duration
	// Pause is how long nothing is asked once it is open. The default is 500 ms. It doubles with
	// each try that fails, up to MaxPause, whose default is 10 s.
	Pause, MaxPause time.Duration
}

func (o Breaker) add(b *builder) error {
	for _, d := range [...]time.Duration{o.Slow, o.Pause, o.MaxPause} {
		if 0 < d && d < shortest {
			return store.Invalidf("the option Breaker has the time %s, and it is at least %s", d, shortest)
		}
	}
	b.breaker = &layers.Breaker{Failures: o.Failures, Slow: o.Slow, Pause: o.Pause, MaxPause: o.MaxPause}
	return b.once("Breaker", int64(o.Failures), int64(o.Slow), int64(o.Pause), int64(o.MaxPause))
}

// Leases take units of a busy key ahead, in chunks, and hand them out without a round trip. They
// never let through more than the limit. They may deny what other processes hold: at most Max
// units for each process. Not leased are calls of several requests, requests with a token, and limits of a [SlidingLog] or
// a [LeakyBucket]. Denials reach the store; [DenialMemory] spares these.
type Leases struct {
	// Max is the most units of a key that are held ahead, and never more than a tenth of what the
	// limit allows at once. The default is 1000.
	Max int64
	// Term is the longest that units are held. The default is 100 ms.
	Term time.Duration
}

func (o Leases) add(b *builder) error {
	b.layers.Leases = func(s Store) Store { return layers.WithLeases(s, layers.Leases{Max: o.Max, Term: o.Term}) }
	return b.once("Leases", o.Max, int64(o.Term))
}

// DenialMemory repeats the store's denials without a round trip until their RetryAfter is over. It never allows
// anything. What another process gives back is noticed up to MaxStale late.
type DenialMemory struct {
	// MaxStale is the longest that a denial is remembered. The default is 1 s.
	MaxStale time.Duration
	// Keys is about how many keys are remembered, at some 300 bytes each. The default is 16,384.
	Keys int
}

func (o DenialMemory) add(b *builder) error {
	b.layers.DenialMemory = layers.DenialMemory{MaxStale: o.MaxStale, Keys: o.Keys}.Wrap
	return b.once("DenialMemory", int64(o.MaxStale), int64(o.Keys))
}

// Overrides apply what operators set with `limitctl override`, `block` and `exempt`, within about
// a second. They are read in the background. Only the first decision, and the first after a rest, waits until they are
// read. The store has to keep overrides, as those of this module do.
type Overrides struct {
	// Every is the time between two looks at the store. The default is 1 s.
	Every time.Duration
	// Idle is how long after the last decision the looks go on. The default is a minute.
	Idle time.Duration
	// Watch is for package policyfile, whose limiters share one. It stays open when the limiter is closed.
	Watch *layers.OverrideWatch
}

func (o Overrides) add(b *builder) error {
	if _, has := admin.OverrideTableOf(b.store); !has {
		return store.Invalidf("the store keeps no overrides, so the option Overrides has no effect; leave it out")
	}
	b.layers.Overrides = func(s Store) Store {
		if o.Watch != nil {
			return o.Watch.Wrap(s)
		}
		return layers.WithOverrides(s, layers.Overrides{Every: o.Every, Idle: o.Idle, OnError: b.observer.OnOverrides,
			OnRecovered: recovered(b.observer.OnOverrides)})
	}
	return b.once("Overrides", int64(o.Every), int64(o.Idle))
}

// DenialLog counts in the store who is denied, where `limitctl denials` and the dashboard show it.
// It writes once in a while, in the background, and when the limiter is closed. The store has to keep denials, as
// those of this module do.
type DenialLog struct {
	// Every is the least time between two writes. The default is 1 s.
	Every time.Duration
	// Collector is for package policyfile, whose limiters share one. It stays open when the limiter is closed.
	Collector *layers.DenialCollector
}

func (o DenialLog) add(b *builder) error {
	if _, has := admin.DenialTableOf(b.store); !has {
		return store.Invalidf("the store keeps no denials, so the option DenialLog has no effect; leave it out")
	}
	b.layers.DenialLog = func(s Store) Store {
		if o.Collector != nil {
			return o.Collector.Wrap(s)
		}
		return layers.WithDenialLog(s, layers.DenialLog{Every: o.Every, OnError: b.observer.OnDenialLog,
			OnRecovered: recovered(b.observer.OnDenialLog)})
	}
	return b.once("DenialLog", int64(o.Every))
}

// recovered tells f that what it was told of is over.
func recovered(f func(error)) func() {
	if f == nil {
		return nil
	}
	return func() { f(nil) }
}

// BreakerState is what a breaker does with calls.
type BreakerState uint8

const (
	// BreakerClosed: calls reach the store.
	BreakerClosed BreakerState = BreakerState(layers.BreakerClosed)
	// BreakerOpen: calls are answered at once with an [ErrUnavailable].
	BreakerOpen BreakerState = BreakerState(layers.BreakerOpen)
	// BreakerHalfOpen: one call tries whether the store is back, and the others are answered as if it were open.
	BreakerHalfOpen BreakerState = BreakerState(layers.BreakerHalfOpen)
)

// String returns "closed", "open" or "half-open".
func (s BreakerState) String() string { return layers.BreakerState(s).String() }

// BreakerChange is a change of a breaker's state.
type BreakerChange struct {
	// Part is the master of a Cluster that it is about; empty for other stores.
	Part     string
	From, To BreakerState
	At       time.Time
	// Reason is what opened the breaker or kept it open; nil otherwise.
	Reason error
}

// Observer gets what a limiter does, for metrics, logs and traces. Each function is optional. It is
// called concurrently, by the goroutine that asked and before that gets its answer. So it has to be quick:
// count, do not send. A panic in it changes nothing for the caller.
type Observer struct {
	// OnCall gets each call as its caller sees it, except those that are refused before anything is asked: without a
	// request or a name, or after Close.
	OnCall func(ctx context.Context, call Call)
	// OnStoreCall gets each call that reaches the store itself.
	OnStoreCall func(ctx context.Context, call Call)
	// OnFailure gets each error of the store in place of which [FailOpen], [FailClosed] or
	// [FailLocal] decided. OnCall sees no error then.
	OnFailure func(err error)
	// OnBreaker gets the changes of the breaker, one after the other.
	OnBreaker func(change BreakerChange)
	// OnOverrides gets why overrides could not be read, once, and nil when they can be again.
	OnOverrides func(err error)
	// OnDenialLog gets why denials could not be written, once, and nil when they can be again.
	OnDenialLog func(err error)
	// OnPanic gets the first panic of a function above. The default is to log it.
	OnPanic func(err error)
}

func (o Observer) add(b *builder) error {
	if err := b.once("Observer"); err != nil {
		return err
	}
	b.observer = o
	watch := func(f func(context.Context, Call)) func(Store) Store {
		if f == nil {
			return nil
		}
		on := layers.Observer{OnPanic: o.OnPanic, OnCall: func(ctx context.Context, call layers.Call) { f(ctx, callOf(&call)) }}
		return func(s Store) Store { return layers.WithObserver(s, on) }
	}
	b.layers.Observer, b.layers.StoreObserver = watch(o.OnCall), watch(o.OnStoreCall)
	return nil
}

// Call is a call of a limiter and its answer.
type Call struct {
	// Operation is "take" (Wait and Reserve take, too), "take of what fits", "peek", "charge", "refund", "settlement" or
	// "adjustment", which is a Reset.
	Operation string
	// Outcome is a short word for metrics, such as "allowed", "denied" or "unavailable".
	Outcome   string
	Requests  []Request
	Decisions Decisions
	Err       error
	// Took is how long it took.
	Took time.Duration
}

func callOf(c *layers.Call) Call {
	call := Call{Operation: c.Op.String(), Outcome: c.Outcome(), Err: c.Err, Took: c.Took, Requests: make([]Request, len(c.Requests))}
	for i := range c.Requests {
		call.Requests[i] = Request{c.Requests[i]}
		call.Requests[i].asked.SetDefaults()
	}
	if c.Err == nil {
		call.Decisions = DecisionsOf(c.Decisions)
	}
	return call
}

// stack builds what options say around the store.
func (b *builder) stack(options []Option) (Store, error) {
	if len(options) == 0 {
		return b.store, nil
	}
	for i, option := range options {
		if option == nil {
			return nil, store.Invalidf("option %d of %d is nil", i+1, len(options))
		}
		if err := option.add(b); err != nil {
			return nil, err
		}
	}
	observed := layers.Observer{OnFailure: b.observer.OnFailure, OnPanic: b.observer.OnPanic}
	if on := b.observer.OnBreaker; on != nil {
		observed.OnBreaker = func(c layers.BreakerChange) {
			on(BreakerChange{Part: c.Part, From: BreakerState(c.From), To: BreakerState(c.To), At: c.At, Reason: c.Reason})
		}
	}
	if b.failure.Policy != store.FailOnError {
		b.failure.OnFailure = observed.Failure()
		b.layers.Failure = func(s Store) Store { return layers.WithFailure(s, b.failure) }
	}
	if b.breaker != nil {
		settings := observed.Breaker(*b.breaker)
		b.layers.Breaker = func(s Store) Store { return layers.WithBreaker(s, settings) }
	}
	return layers.Stack(store.Wrap(keptOpen{b.store}, b.store), b.layers), nil
}
