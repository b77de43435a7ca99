package layers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// leaseStore is the law of [store.Leases]: units of busy keys are taken in advance and handed out without a call. The
// limit holds by the instants at which the store charged them, which are the At of such decisions; see ARCHITECTURE.md.
//
// Units that nobody takes go back at the end of the Term, and on Close: to a bucket minus what leaked meanwhile, and
// never into a new window. So others can be denied at most Max units for each store with leases.
//
// Of the callers that find no units one asks the store for what all of them need and some in advance. If that fails, or
// so many units do not fit, they call the store themselves, so only the store denies.
//
// A sliding log is not leased, because a refund removes its newest units, which can be somebody else's, nor is a leaky
// bucket. Calls of several requests, shadow limits, takes with a token and other operations pass through.
type leaseStore struct {
	store.Store
	store.Leases
	Env
	time   stopwatch
	keys   *keyTable[leasedKey]
	heat   heat
	closed atomic.Bool

	mu       sync.Mutex
	sweeping bool      // a sweep is scheduled
	running  int       // refills and refunds under way
	done     sync.Cond // signalled when one has ended
}

// leaseShare is the part of a limit's capacity that one store may hold in advance: a tenth.
const leaseShare = 10

// leaseKeys is the approximate number of keys that are leased at a time. Units of other keys are taken one by one.
var leaseKeys = 1024 // tests have fewer

func newLeases(backend store.Store, settings store.Leases, env Env) *leaseStore {
	settings = settings.WithDefaults()
	s := &leaseStore{Store: backend, Leases: settings, Env: env, time: newStopwatch(env.Clock),
		keys: newKeyTable[leasedKey](leaseKeys), heat: newHeat(settings.Term / 2)}
	s.done.L = &s.mu
	return s
}

// bound returns the most units to hold in advance for requests like req, and 0 if its key is not leased.
func (s *leaseStore) bound(req *store.Request) int64 {
	const least = 2 // with less there is nothing to hold in advance
	most := min(s.Max, req.Capacity()/leaseShare)
	if !req.Limit.CanAdvance() || most < least {
		return 0
	}
	return most
}

// Decide implements [store.Store].
func (s *leaseStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if op != store.Take || !isSingle(reqs, decisions) || reqs[0].Cost < 1 || s.closed.Load() {
		return s.Store.Decide(ctx, op, reqs, decisions)
	}
	req := &reqs[0]
	hash := s.keys.hash(&req.Key)
	set := s.keys.set(hash)
	if k := set.find(req); k != nil && !k.value.cold.Load() {
		now := s.time.now()
		if l := k.value.current.Load(); l != nil && l.handOut(req.Cost, now, &decisions[0]) {
			return nil
		}
		if answered, err := s.refill(ctx, k, req, &decisions[0]); answered {
			return err
		}
	}
	if err := s.Store.Decide(ctx, op, reqs, decisions); err != nil {
		return err
	}
	// Take units in advance only while plenty remain.
	d := &decisions[0]
	if d.Allowed && isOfStore(d) && d.Remaining >= req.Capacity()/leaseShare && s.heat.add(hash, s.time.now()) {
		s.lease(set, req, d)
	}
	return nil
}

// isOfStore reports whether the store itself made a decision. Layers use only such decisions.
func isOfStore(d *store.Decision) bool { return d.DecidedBy == store.DecidedByStore && !d.Unguarded }

// lease begins to take units of a key in advance. d is the store's last decision on it.
func (s *leaseStore) lease(set *keySet[leasedKey], req *store.Request, d *store.Decision) {
	bound := s.bound(req)
	if bound == 0 {
		return
	}
	set.mu.Lock()
	k := set.find(req)
	var givenUp *keyed[leasedKey]
	if k == nil {
		k = &keyed[leasedKey]{key: req.Key, limit: req.Limit, leave: req.Leave}
		k.value.bound, k.value.asking = bound, make(chan struct{}, 1)
		k.value.cold.Store(true)
		var done bool
		if givenUp, done = set.put(k, (*leasedKey).worth); !done {
			set.mu.Unlock()
			return // all of them have units
		}
	}
	set.mu.Unlock()
	if givenUp != nil {
		s.evict(givenUp)
	}
	k.value.mu.Lock()
	defer k.value.mu.Unlock()
	if k.value.cold.Load() {
		k.value.chunk, k.value.remaining = min(2, bound), d.Remaining
		k.value.cold.Store(false)
	}
}

// evict ends a lease that a key may have got since its worth was computed.
func (s *leaseStore) evict(k *keyed[leasedKey]) {
	k.value.mu.Lock()
	k.value.evicted = true
	refunds := s.retire(nil, k)
	k.value.mu.Unlock()
	s.giveBack(refunds)
}

// refill asks the store for units, unless another caller has got some. answered is false if the caller should ask.
func (s *leaseStore) refill(ctx context.Context, k *keyed[leasedKey], req *store.Request, d *store.Decision) (
	answered bool, err error) {
	key := &k.value
	key.waiting.Add(req.Cost)
	select {
	case key.asking <- struct{}{}:
		key.waiting.Add(-req.Cost)
	case <-ctx.Done():
		key.waiting.Add(-req.Cost)
		if err := store.GaveUp(ctx); err != nil {
			return true, err
		}
		return true, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	defer func() { <-key.asking }()
	if l := key.current.Load(); l != nil && l.handOut(req.Cost, s.time.now(), d) {
		return true, nil
	}
	extra, asks := key.demand(req.Cost, s.time.now(), s.Term)
	if !asks {
		return false, nil
	}
	s.enter() // Close waits for it
	defer s.leave()
	asked, decisions := [1]store.Request{k.request(min(req.Cost+extra, req.Capacity()))}, [1]store.Decision{}
	sent := s.time.now()
	err = s.Store.Decide(ctx, store.Take, asked[:], decisions[:])
	l := &lease{decision: decisions[0], capacity: req.Capacity(), sent: sent, got: s.time.now()}
	if err == nil && l.decision.Allowed && isOfStore(&l.decision) {
		l.answer(req.Cost, asked[0].Cost-req.Cost, d)
		d.DecidedBy = store.DecidedByStore
		s.giveBack(s.hold(k, l, asked[0].Cost, asked[0].Cost-req.Cost))
		return true, nil
	}
	key.mu.Lock()
	defer key.mu.Unlock()
	key.cold.Store(true)
	switch (&Call{Decisions: decisions[:], Err: err}).Outcome() {
	case "outcome-unknown", "gave-up-unknown", "error":
		gone := time.Duration(0) // depends on other charges
		if _, isWindow := k.limit.Advance(0); isWindow > 0 {
			gone = l.got + 2*k.limit.Period + refundWay
		}
		key.lose(asked[0].Cost, gone)
	}
	*d = l.decision
	return err != nil || asked[0].Cost == req.Cost, err
}

// hold makes l the lease of a key, with left of the units that were taken. It returns what goes back.
func (s *leaseStore) hold(k *keyed[leasedKey], l *lease, taken, left int64) (refunds []leaseRefund) {
	key, at := &k.value, l.decision.At
	end, gone := k.limit.Advance(at)
	key.mu.Lock()
	defer key.mu.Unlock()
	// The store decided between sent and got. The earlier one is the safe assumption.
	l.ends = l.sent + s.Term
	if inWindow := end - at; inWindow < store.Instant(s.Term/time.Microsecond) {
		l.ends = l.sent + time.Duration(inWindow)*time.Microsecond
	}
	key.remaining = l.decision.Remaining
	if gone == 0 {
		key.lost = min(key.lost, l.decision.Used-taken) // at most all that is in use is theirs
	}
	refunds = s.retire(nil, k)
	l.left.Store(left)
	key.current.Store(l)
	if key.evicted || s.closed.Load() {
		return append(refunds, s.retire(nil, k)...)
	}
	s.sweepLater()
	return refunds
}

func (s *leaseStore) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
}

func (s *leaseStore) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.done.Broadcast()
}

// Close implements [store.Store]. It gives back unused units.
func (s *leaseStore) Close() error {
	s.closed.Store(true)
	s.sweep()
	s.mu.Lock()
	for s.running > 0 {
		s.done.Wait()
	}
	s.mu.Unlock()
	return s.Store.Close()
}
