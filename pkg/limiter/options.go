package limiter

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
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
	store    store.Store
	given    map[string]bool
	layers   layers.Layers
	failure  layers.Failure
	breaker  *layers.Breaker
	observer Observer
	// noWrapper: the function of Around has returned nil.
	noWrapper bool
}

// once returns an error if the option is given twice, or has a number or a time that nobody can mean.
func (b *builder) once(option string, numbers []int64, times ...time.Duration) error {
	if b.given[option] {
		return store.Invalidf("the option %s is given twice", option)
	}
	b.given[option] = true
	for _, number := range numbers {
		if number < 0 {
			return store.Invalidf("the option %s has the negative number %d; a number is 0, for its default, or more", option, number)
		}
	}
	for _, t := range times {
		if t != 0 && t < shortest {
			return store.Invalidf("the option %s has the time %s; a time is 0, for its default, or at least %s", option, t, shortest)
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

// FailLocal decides in the memory of this process while the store is away, by a share of each limit, above 0 and at
// most 1. In an outage n processes let through at most n × share × limit, and each at least one unit. A share of 1
// ÷ n lets through about one limit in all.
func FailLocal(share float64) Option { return failure{policy: store.LocalOnError, share: share} }

// FailLocalIn is [FailLocal] with another store, such as a file that the processes of a machine share. Closing the
// limiter leaves it open.
func FailLocalIn(local Store, share float64) Option {
	if sys.IsNil(local) {
		return failure{} // New reports it
	}
	return failure{policy: store.LocalOnError, share: share, local: local}
}

func (f failure) add(b *builder) error {
	if err := b.once("FailOpen, FailClosed or FailLocal", nil); err != nil {
		return err
	}
	if f.policy == store.FailOnError {
		return store.Invalidf("FailLocalIn has no store")
	}
	b.failure = layers.Failure{Policy: f.policy, Fallback: f.local}
	if f.policy != store.LocalOnError {
		return nil
	}
	if !(f.share > 0 && f.share <= 1) { // NaN included
		return store.Invalidf("the share %v of FailLocal is out of range; it is above 0 and at most 1", f.share)
	}
	b.failure.Share = store.Share(max(1, math.Round(f.share*float64(store.WholeShare))))
	return nil
}

// Around puts your own wrapper around everything but the [Observer]. The function gets the inner store and returns
// the wrapper. The wrapper's Close has no effect on the inner store. See package store.
func Around(wrap func(Store) Store) Option { return around(wrap) }

type around func(Store) Store

func (a around) add(b *builder) error {
	if a == nil {
		return store.Invalidf("Around has no wrapper")
	}
	b.layers.Around = func(s Store) Store {
		if wrapper := a(s); !sys.IsNil(wrapper) {
			return wrapper
		}
		b.noWrapper = true
		return s
	}
	return b.once("Around", nil)
}

// Timeout bounds the time of a call to the store. After it the store counts as away. The deadline of the caller's
// context applies, too.
type Timeout time.Duration

func (t Timeout) add(b *builder) error {
	if time.Duration(t) < shortest {
		return store.Invalidf("the Timeout %s is below %s, in which no store answers", time.Duration(t), shortest)
	}
	b.layers.Budget = func(s Store) Store { return store.WithBudget(s, time.Duration(t)) }
	return b.once("Timeout", nil)
}

// shortest is the least time of an option. Less is most likely a number without its unit.
const shortest = time.Millisecond

// Breaker stops calling a store that is away, so that callers do not each wait for a time-out. It opens after
// several failures in a row. Then a recovery check finds out from time to time whether the store is back. A denial
// or a refusal is not a failure. In a Cluster each master has its own breaker.
type Breaker struct {
	// Failures is the number of failures in a row that opens it. The default is 5. One lost connection is one failure,
	// however many calls shared it.
	Failures int
	// Slow is the time after which an answer counts as a failure. The default is 1 s. Keep it below the time that
	// your callers have.
	Slow time.Duration
	// Pause is the time from opening to the first recovery check. The default is 500 ms. It doubles with each check
	// that fails, up to MaxPause, whose default is 10 s.
	Pause, MaxPause time.Duration
}

func (o Breaker) add(b *builder) error {
	b.breaker = &layers.Breaker{Failures: o.Failures, Slow: o.Slow, Pause: o.Pause, MaxPause: o.MaxPause}
	return b.once("Breaker", []int64{int64(o.Failures)}, o.Slow, o.Pause, o.MaxPause)
}

// Leases take units of a busy key in advance, in chunks, and hand them out without a round trip. They never let
// through more than the limit, but can deny units that other processes hold: at most Max per process. They do not
// apply to calls of several requests, requests with a token, a [SlidingLog] or a [LeakyBucket]. Denials still call
// the store; [DenialMemory] avoids that.
type Leases struct {
	// Max is the most units of a key that a process holds. It is never more than a tenth of what the limit allows
	// at once. The default is 1000.
	Max int64
	// Term is the longest time that units are held. The default is 100 ms.
	Term time.Duration
}

func (o Leases) add(b *builder) error {
	b.layers.Leases = func(s Store) Store { return layers.WithLeases(s, layers.Leases{Max: o.Max, Term: o.Term}) }
	return b.once("Leases", []int64{o.Max}, o.Term)
}

// DenialMemory repeats the store's denials without a round trip until their RetryAfter is over. It never allows
// anything. It notices up to MaxStale late when another process gives units back.
type DenialMemory struct {
	// MaxStale is the longest time that a denial is remembered. The default is 1 s.
	MaxStale time.Duration
	// Keys is the approximate number of keys to remember, at about 300 bytes each. The default is 16,384.
	Keys int
}

func (o DenialMemory) add(b *builder) error {
	const most = 1 << 24
	if o.Keys > most {
		return store.Invalidf("the option DenialMemory has %d Keys; it is at most %d, which take 5 GB", o.Keys, most)
	}
	b.layers.DenialMemory = layers.DenialMemory{MaxStale: o.MaxStale, Keys: o.Keys}.Wrap
	return b.once("DenialMemory", []int64{int64(o.Keys)}, o.MaxStale)
}

// Overrides apply the overrides of operators (`limitctl override`, `block` and `exempt`) within about a second.
// They are read in the background. Only the first decision, and the first after a pause, waits for them. The store
// has to keep overrides, as the stores of this module do.
type Overrides struct {
	// Every is the time between two reads. The default is 1 s.
	Every time.Duration
	// Idle is how long after the last decision the reads go on. The default is a minute.
	Idle time.Duration
}

func (o Overrides) add(b *builder) error {
	if _, has := admin.TablesOf(b.store); !has {
		return store.Invalidf("the store keeps no overrides, so the option Overrides has no effect; leave it out")
	}
	shared, has := store.As[*layers.Shared](b.store)
	b.layers.Overrides = func(s Store) Store {
		if has {
			return shared.Watch.Wrap(s)
		}
		return layers.WithOverrides(s, layers.Overrides{Every: o.Every, Idle: o.Idle, OnError: b.observer.OnOverrides,
			OnRecovered: recovered(b.observer.OnOverrides)})
	}
	return b.once("Overrides", nil, o.Every, o.Idle)
}

// DenialLog counts in the store denials per key, and per override what it lets through: `limitctl denials`, `limitctl
// override list` and the dashboard show that. It writes in the background, and when the limiter is closed. The store
// has to keep denials, as the stores of this module do.
type DenialLog struct {
	// Every is the shortest time between two writes. The default is 1 s.
	Every time.Duration
}

func (o DenialLog) add(b *builder) error {
	if _, has := admin.TablesOf(b.store); !has {
		return store.Invalidf("the store keeps no denials, so the option DenialLog has no effect; leave it out")
	}
	shared, has := store.As[*layers.Shared](b.store)
	b.layers.DenialLog = func(s Store) Store {
		if has {
			return shared.Denials.Wrap(s)
		}
		return layers.WithDenialLog(s, layers.DenialLog{Every: o.Every, OnError: b.observer.OnDenialLog,
			OnRecovered: recovered(b.observer.OnDenialLog)})
	}
	return b.once("DenialLog", nil, o.Every)
}

// recovered returns a function that reports to f that an error is over.
func recovered(f func(error)) func() {
	if f == nil {
		return nil
	}
	return func() { f(nil) }
}

// BreakerState is the state of a [Breaker].
type BreakerState uint8

const (
	// BreakerClosed: calls reach the store.
	BreakerClosed BreakerState = BreakerState(layers.BreakerClosed)
	// BreakerOpen: calls fail at once with an [ErrUnavailable].
	BreakerOpen BreakerState = BreakerState(layers.BreakerOpen)
	// BreakerHalfOpen: a recovery check is under way, and other calls fail as if it were open.
	BreakerHalfOpen BreakerState = BreakerState(layers.BreakerHalfOpen)
)

// String returns "closed", "open" or "half-open".
func (s BreakerState) String() string { return layers.BreakerState(s).String() }

// BreakerChange is a change of a breaker's state.
type BreakerChange struct {
	// Shard is the master of the Cluster; empty for other stores.
	Shard    string
	From, To BreakerState
	At       time.Time
	// Reason is what opened the breaker or kept it open; nil otherwise.
	Reason error
}

// Observer receives what a limiter does, for metrics, logs and traces. Each function is optional. The goroutine of
// the caller calls it before the caller gets the answer, and several can run at once. So it has to be quick: count,
// do not send. A panic in it does not reach the caller.
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
	// OnPanic gets the first panic of the functions above. The default is to log it.
	OnPanic func(err error)
}

func (o Observer) add(b *builder) error {
	if err := b.once("Observer", nil); err != nil {
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

// stack puts the layers of options around the store.
func (b *builder) stack(options []Option) (Store, error) {
	if len(options) == 0 {
		return b.store, nil
	}
	for i, option := range options {
		if sys.IsNil(option) {
			return nil, store.Invalidf("option %d of %d is nil", i+1, len(options))
		}
		if err := option.add(b); err != nil {
			return nil, err
		}
	}
	observed := layers.Observer{OnFailure: b.observer.OnFailure, OnPanic: b.observer.OnPanic}
	if on := b.observer.OnBreaker; on != nil {
		observed.OnBreaker = func(c layers.BreakerChange) {
			on(BreakerChange{Shard: c.Shard, From: BreakerState(c.From), To: BreakerState(c.To), At: c.At, Reason: c.Reason})
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
	stacked := layers.Stack(store.Wrap(keptOpen{b.store}, b.store), b.layers)
	if b.noWrapper {
		return nil, errors.Join(store.Invalidf("the function of Around returns no store"), stacked.Close())
	}
	return stacked, nil
}
