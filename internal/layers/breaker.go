package layers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// breakerStore is the law of [store.Breaker]: once the store is away, calls fail at once. After a pause the next call
// starts a recovery check: a peek in the background. If the store answers, the breaker closes. Until a call has then
// succeeded, one failure opens it again, for twice the last pause: a store can answer peeks and not takes.
//
// A [store.Sharded] store has a circuit for each shard, and a call over several needs all of them. Its failure counts
// for the shard that the [store.ShardError] names, if it names one.
type breakerStore struct {
	store.Store
	store.Breaker
	Env

	sharded store.Sharded // nil if the store has no shards
	whole   *circuit      // for keys in a shard without a name
	shards  atomic.Pointer[map[string]*circuit]

	mu sync.Mutex // for all circuits, so that the observer gets their changes one after the other
}

func newBreaker(backend store.Store, settings store.Breaker, env Env) *breakerStore {
	s := &breakerStore{Store: backend, Breaker: settings.WithDefaults(), Env: env}
	s.sharded, _ = store.As[store.Sharded](backend)
	s.whole = s.newCircuit("")
	s.shards.Store(&map[string]*circuit{})
	return s
}

// visit is a shard that a call needs.
type visit struct {
	*circuit
	begun int64 // the epoch at the beginning
	first int   // the index of its first request
}

// Decide implements [store.Store].
func (s *breakerStore) Decide(ctx context.Context, op store.Op, reqs []store.Request,
	decisions []store.Decision) error {
	var few [4]visit // no allocation
	visits := few[:0]
	if s.sharded == nil || len(reqs) == 0 {
		visits = append(visits, visit{circuit: s.whole, begun: s.whole.epoch.Load()})
	} else {
		visits = s.visits(visits, reqs)
	}
	for i := range visits {
		if visits[i].begun%2 != 0 {
			return s.refuse(ctx, visits, op, reqs)
		}
	}
	begun := s.wallTime()
	err := s.Store.Decide(ctx, op, reqs, decisions)
	s.judge(visits, err, s.wallTime().Sub(begun), reqs, decisions)
	return err
}

// visits appends the shards that reqs need.
func (s *breakerStore) visits(visits []visit, reqs []store.Request) []visit {
next:
	for i := range reqs {
		shard := s.sharded.Shard(reqs[i].Key)
		for n := range visits {
			if visits[n].shard == shard {
				continue next
			}
		}
		c := s.circuitOf(shard, &reqs[i])
		visits = append(visits, visit{circuit: c, begun: c.epoch.Load(), first: i})
	}
	return visits
}

// judge handles the answer to a call, by the shards that it needed.
func (s *breakerStore) judge(visits []visit, err error, took time.Duration, reqs []store.Request,
	decisions []store.Decision) {
	failed := store.IsAway(err) || took > s.Slow
	if err == nil && !failed {
		s.succeeded(visits, decisions)
		return
	}
	if !failed && (errors.Is(err, store.ErrGaveUp) || errors.Is(err, store.ErrInvalid)) {
		return // it says nothing about the store
	}
	if err == nil {
		err = fmt.Errorf("an answer took %s", took.Round(time.Millisecond))
	}
	var of *store.ShardError
	named := s.sharded != nil && errors.As(err, &of)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range visits {
		// The error is about one shard, and says nothing about the others, which may not have been called.
		if named && v.shard == of.Shard || !named && len(visits) == 1 {
			v.count(failed, err, v.begun, reqs[v.first:])
			return
		}
	}
}

// succeeded counts an answer for all shards that the call needed. If one of several shards denied, the answer did not
// need the others, so it counts for none.
func (s *breakerStore) succeeded(visits []visit, decisions []store.Decision) {
	if len(visits) > 1 && slices.ContainsFunc(decisions, func(d store.Decision) bool { return d.Unguarded }) {
		return
	}
	for _, v := range visits {
		if !v.well.Load() {
			s.mu.Lock()
			v.count(false, nil, v.begun, nil)
			s.mu.Unlock()
		}
	}
}

// refuse returns the error of the first shard that refuses a call, and starts the recovery checks for which it is time.
func (s *breakerStore) refuse(ctx context.Context, visits []visit, op store.Op, reqs []store.Request) (refusal error) {
	// An invalid call gets its own error, and does not start a recovery check.
	if _, err := store.NormalizeAll(nil, op, reqs); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range visits {
		if v.begun%2 != 0 && refusal == nil {
			refusal = v.refusal
		}
		v.tryAgain(&reqs[v.first])
	}
	if err := store.GaveUp(ctx); err != nil {
		return err // like the store: the caller's time was over first
	}
	return refusal
}

// checkRecovery peeks, so that the check changes nothing in the store and fits into a full one.
func (s *breakerStore) checkRecovery(req store.Request) error {
	ctx, cancel := store.BudgetContext(context.Background(), s.Slow)
	defer cancel()
	return s.Store.Decide(ctx, store.Peek, []store.Request{req}, make([]store.Decision, 1))
}

// circuitOf returns the circuit of a shard that contains the key of req.
func (s *breakerStore) circuitOf(shard string, req *store.Request) *circuit {
	if shard == "" {
		return s.whole
	}
	if c := (*s.shards.Load())[shard]; c != nil {
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := (*s.shards.Load())[shard]
	if c == nil {
		c = s.newCircuit(shard)
		c.sample = req.Key
		s.keep(c) // a new shard may replace an old one
	}
	return c
}

// keep keeps c, and forgets shards that no longer contain their sample key. The caller holds the lock.
func (s *breakerStore) keep(c *circuit) {
	shards := maps.Clone(*s.shards.Load())
	maps.DeleteFunc(shards, func(shard string, other *circuit) bool {
		if other == c || s.sharded.Shard(other.sample) == shard {
			return false
		}
		if other.gone = true; other.now() != store.BreakerClosed {
			other.change(store.BreakerClosed, nil)
		}
		return true
	})
	shards[c.shard] = c
	s.shards.Store(&shards)
}

// circuit is the breaker of a store, or of one of its shards.
type circuit struct {
	store *breakerStore
	shard string

	// epoch is even while calls pass. Results of calls from an earlier epoch do not count.
	epoch atomic.Int64
	// well: calls pass, and none has failed since the last success. Then a success takes no lock.
	well  atomic.Bool
	state atomic.Uint32 // a [store.BreakerState], which only changes under the lock of the store

	// Guarded by the lock of the store.
	failures int           // in a row, while closed
	batches  []uint64      // those that are among the failures
	since    time.Time     // when it last changed from closed
	pause    time.Duration // from the last failure to the next recovery check
	next     time.Time     // the earliest time for it
	refusal  error         // the error of calls while it is not closed
	sample   store.Key     // a key that was in the shard when last seen
	gone     bool          // the store no longer has this shard
}

func (s *breakerStore) newCircuit(shard string) *circuit {
	c := &circuit{store: s, shard: shard}
	c.well.Store(true)
	return c
}

func (c *circuit) now() store.BreakerState { return store.BreakerState(c.state.Load()) }

// tryAgain starts a recovery check with the key of req, if it is time. The caller holds the lock.
func (c *circuit) tryAgain(req *store.Request) {
	if c.gone || c.now() == store.BreakerClosed {
		return
	}
	c.sample = req.Key
	if c.now() == store.BreakerOpen && !c.store.wallTime().Before(c.next) {
		c.change(store.BreakerHalfOpen, nil)
		peek := store.Request{Key: req.Key, Limit: req.Limit, Cost: 1}
		panics.Go(func() error { return c.store.checkRecovery(peek) }, c.recoveryChecked)
	}
}

// recoveryChecked handles the result of a recovery check.
func (c *circuit) recoveryChecked(err error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	switch {
	case c.gone:
	case store.IsAway(err):
		c.open(err)
	default:
		c.failures = c.store.Failures - 1 // a refusal counts as an answer
		c.epoch.Add(1)                    // before the observer, so that who hears of it can call
		c.change(store.BreakerClosed, nil)
	}
}

// count counts the result of a call that began in an epoch. The caller holds the lock.
func (c *circuit) count(failed bool, err error, epoch int64, reqs []store.Request) {
	if failed && len(reqs) > 0 {
		c.sample = reqs[0].Key
	}
	switch {
	case c.gone || epoch != c.epoch.Load(): // it began before the breaker opened
	case !failed:
		c.failures, c.batches, c.pause = 0, nil, 0
		c.well.Store(true)
	default:
		c.well.Store(false)
		if c.counted(err) {
			return
		}
		if c.failures++; c.failures >= c.store.Failures {
			c.since = c.store.wallTime()
			c.open(err)
			c.epoch.Add(1)
		}
	}
}

// counted reports whether err is of a batch that is among the failures, and adds its batch to them.
func (c *circuit) counted(err error) bool {
	var shared *store.BatchError
	if !errors.As(err, &shared) {
		return false
	}
	if slices.Contains(c.batches, shared.Batch) {
		return true
	}
	c.batches = append(c.batches, shared.Batch)
	return false
}

// open opens the breaker, or prolongs the pause. The caller holds the lock.
func (c *circuit) open(reason error) {
	c.pause = min(max(c.store.Pause, 2*c.pause), c.store.MaxPause)
	c.next, c.batches = c.store.wallTime().Add(c.pause), nil
	// The error of another call, such as an unknown outcome, must not be wrapped here.
	c.refusal = fmt.Errorf("%w (circuit open since %s); the last error was: %s", store.ErrUnavailable,
		c.since.Format("15:04:05"), reason)
	c.change(store.BreakerOpen, reason)
	if c != c.store.whole {
		c.store.keep(c)
	}
}

// change sets the state and reports the change. The caller holds the lock, so that changes are reported in order.
func (c *circuit) change(to store.BreakerState, reason error) {
	from := store.BreakerState(c.state.Swap(uint32(to)))
	o := c.store.Observer
	notify(o, o.OnBreaker, store.BreakerChange{Shard: c.shard, From: from, To: to, At: c.store.wallTime(),
		Reason: reason})
}
