package layers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Breaker has the settings of [WithBreaker]. A zero field means its default.
type Breaker struct {
	// Failures is the number of failures in a row that opens the breaker; the default is 5. A failure is an error
	// that [store.IsAway] accepts, or an answer that took longer than Slow. A denial, or a refusal such as a wrong
	// password, is an answer. An invalid request, or a caller that gave up in less time, says nothing about the
	// store. A [store.BatchError] is one failure of all who get it.
	Failures int
	// Slow is the longest time of a good answer; the default is 1 s. Keep it below the time that your callers have:
	// a caller that gives up earlier says nothing about the store.
	Slow time.Duration
	// Pause is the time from opening to the first recovery check; the default is 500 ms. It doubles with each check
	// that fails, up to MaxPause, whose default is 10 s.
	Pause, MaxPause time.Duration
	// Clock is the clock; the default is time.Now.
	Clock func() time.Time
	// OnChange, if set, gets each change of state, one after the other and in order. It must not call the store.
	OnChange func(BreakerChange)
}

// BreakerState is the state of a breaker.
type BreakerState uint8

const (
	// BreakerClosed: calls go to the store.
	BreakerClosed BreakerState = iota
	// BreakerOpen: calls fail at once.
	BreakerOpen
	// BreakerHalfOpen: calls fail at once, while a recovery check is under way.
	BreakerHalfOpen
)

// String returns "closed", "open" or "half-open".
func (s BreakerState) String() string {
	switch s {
	case BreakerOpen:
		return "open"
	case BreakerHalfOpen:
		return "half-open"
	default:
		return "closed"
	}
}

// BreakerChange is one change of a breaker's state.
type BreakerChange struct {
	// Shard is the shard of a [store.Sharded] store, empty for a store without shards. When the store loses a shard, its
	// breaker changes to closed.
	Shard    string
	From, To BreakerState
	At       time.Time
	// Reason is the error that opened the breaker, or kept it open; nil otherwise.
	Reason error
}

// WithBreaker wraps backend so that, once it is away, calls fail at once instead of each after its own time-out.
// They charge nothing, and the error is a [store.ErrUnavailable] that says "circuit open since …".
//
// After a pause the next call starts a recovery check: a peek at the same keys, in the background. No caller waits
// for it, and there is one at a time, however many calls come. If the store answers, the breaker closes. Until a
// call has then succeeded, one failure opens it again, for twice the last pause: a store can answer peeks and not
// takes.
//
// A store that is [store.Sharded], such as a Redis Cluster, has a breaker for each shard: while a shard is away, only
// calls for its keys fail. A call over several shards needs all of them. Its failure counts for the shard that the
// error names, see [store.ShardError]. If the error names none, or such a call is only slow, it counts for none.
func WithBreaker(backend store.Store, settings Breaker) store.Store {
	s := &breakerStore{Store: backend, Breaker: settings.WithDefaults()}
	s.sharded, _ = store.As[store.Sharded](backend)
	s.whole.init(s, "")
	s.shards.Store(&map[string]*circuit{})
	return store.Wrap(s, backend)
}

// WithDefaults returns b with its zero fields filled in. It raises a MaxPause below Pause to Pause.
func (b Breaker) WithDefaults() Breaker {
	orElse := func(value *time.Duration, byDefault time.Duration) {
		if *value <= 0 {
			*value = byDefault
		}
	}
	orElse(&b.Slow, time.Second)
	orElse(&b.Pause, 500*time.Millisecond)
	orElse(&b.MaxPause, 10*time.Second)
	b.MaxPause = max(b.MaxPause, b.Pause)
	if b.Failures <= 0 {
		b.Failures = 5
	}
	if b.Clock == nil {
		b.Clock = time.Now
	}
	return b
}

// breakerStore passes calls to a store or refuses them. Each shard of the store has a circuit.
type breakerStore struct {
	store.Store
	Breaker

	sharded store.Sharded // nil if the store has no shards
	whole   circuit       // for keys in a shard without a name
	shards  atomic.Pointer[map[string]*circuit]

	mu sync.Mutex // for all circuits, so that OnChange gets their changes one after the other
}

// Decide implements [store.Store].
func (s *breakerStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	c := &s.whole
	if s.sharded != nil && len(reqs) > 0 {
		shard := s.sharded.Shard(reqs[0].Key)
		for i := 1; i < len(reqs); i++ {
			if s.sharded.Shard(reqs[i].Key) != shard {
				return s.decideAcross(ctx, op, reqs, decisions)
			}
		}
		c = s.circuitOf(shard, reqs[0].Key)
	}
	epoch := c.epoch.Load()
	if epoch%2 != 0 {
		return s.refuse(ctx, c, op, reqs)
	}
	begun := s.Clock()
	err := s.Store.Decide(ctx, op, reqs, decisions)
	c.judge(err, s.Clock().Sub(begun), epoch, reqs)
	return err
}

// refuse returns the error for a call that c refuses, and starts a recovery check of its shard if it is time.
func (s *breakerStore) refuse(ctx context.Context, c *circuit, op store.Op, reqs []store.Request) error {
	// An invalid call gets its own error, and does not start a recovery check.
	normal, err := store.NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	refusal := c.refusal
	c.tryAgain(normal)
	if err := store.GaveUp(ctx); err != nil {
		return err // like the store: the caller's time was over first
	}
	return refusal
}

// checkRecovery peeks, so that the check changes nothing in the store and fits into a full one.
func (s *breakerStore) checkRecovery(reqs []store.Request) error {
	for i := range reqs {
		reqs[i] = store.Request{Key: reqs[i].Key, Limit: reqs[i].Limit, Cost: 1}
	}
	answered := make(chan error, 1)
	panics.Go(func() error {
		ctx, cancel := store.BudgetContext(context.Background(), s.Slow)
		defer cancel()
		return s.Store.Decide(ctx, store.Peek, reqs, make([]store.Decision, len(reqs)))
	}, func(err error) { answered <- err })
	enough := time.NewTimer(checkTimeFactor * s.Slow) // a store that ignores its context must not block the breaker
	defer enough.Stop()
	select {
	case err := <-answered:
		return err
	case <-enough.C:
		return fmt.Errorf("%w: a recovery check was not answered within %s", store.ErrUnavailable, checkTimeFactor*s.Slow)
	}
}

// checkTimeFactor bounds the time of a recovery check, as a multiple of Slow.
const checkTimeFactor = 2
