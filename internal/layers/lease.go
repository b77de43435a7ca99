package layers

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// lease is units of one key that the store has charged. Callers take them without a lock.
type lease struct {
	left atomic.Int64
	// decision is the store's decision with all of the units in use.
	decision store.Decision
	capacity int64
	// ends is when the units must no longer be handed out, by the local clock.
	sent, got, ends time.Duration
}

// handOut answers a take if enough units are left.
func (l *lease) handOut(cost int64, now time.Duration, d *store.Decision) bool {
	if now >= l.ends {
		return false
	}
	for {
		left := l.left.Load()
		if left < cost {
			return false
		}
		if l.left.CompareAndSwap(left, left-cost) {
			l.answer(cost, left-cost, d)
			return true
		}
	}
}

// answer grants cost units, and describes the key at the instant of the charge.
func (l *lease) answer(cost, left int64, d *store.Decision) {
	*d = l.decision
	d.Granted = cost
	d.Used -= left
	d.Remaining = l.capacity - d.Used
	d.DecidedBy = store.DecidedByLease
}

// leasedKey is the state of a busy key.
type leasedKey struct {
	current atomic.Pointer[lease] // nil, or a lease that may have units
	cold    atomic.Bool           // takes go directly to the store

	bound int64 // the most units to hold in advance

	asking  chan struct{} // has a value while a caller asks for units
	waiting atomic.Int64  // the units that callers need who wait for it

	mu        sync.Mutex
	evicted   bool
	chunk     int64 // the units to take in advance, 2 or more unless cold
	remaining int64 // the remaining units in the last answer of the store
	// away counts units on their way back, and lost those that cannot go back, until lostUntil if that is not 0.
	away, lost int64
	lostUntil  time.Duration
}

// worth is for a full table: a key with units is never replaced.
func (k *leasedKey) worth() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current.Load() != nil || len(k.asking) > 0 || k.away > 0 {
		return -1
	}
	return k.lostUntil
}

// held returns the units that count as held at now, besides those of the lease.
func (k *leasedKey) held(now time.Duration) int64 {
	if k.lostUntil > 0 && now >= k.lostUntil {
		k.lost, k.lostUntil = 0, 0
	}
	return k.away + k.lost
}

// room returns how many units may be taken in advance now.
func (k *leasedKey) room(now time.Duration) int64 {
	room := k.bound - k.held(now)
	if l := k.current.Load(); l != nil {
		room -= l.left.Load()
	}
	return max(0, room)
}

// adapt changes the chunk when callers need units: it doubles if the last one was used up in less than a quarter of
// a term, so that a chunk lasts for a quarter to a half of a term.
func (k *leasedKey) adapt(now, term time.Duration) {
	switch l := k.current.Load(); {
	case l == nil:
	case now >= l.ends && l.left.Load() > 0:
		k.chunk = max(2, k.chunk/2)
	case now-l.got < term/4:
		k.chunk = min(2*k.chunk, k.bound)
	}
}

// demand returns the units to take besides cost: what others wait for, and in advance at most half of what is left.
// asks is false if the key is not worth it.
func (k *leasedKey) demand(cost int64, now, term time.Duration) (extra int64, asks bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cold.Load() || k.evicted || cost > k.chunk {
		return 0, false
	}
	k.adapt(now, term)
	return k.waiting.Load() + min(k.chunk, k.room(now), k.remaining/2), true
}

// lose counts units that may have been charged and cannot go back, until they are gone.
func (k *leasedKey) lose(units int64, gone time.Duration) {
	k.lost += units
	k.lostUntil = max(k.lostUntil, gone)
}

// heat finds busy keys, in a fixed amount of memory. Keys that share a counter replace one another, and a lost update
// only means that a key is found a little later.
type heat struct {
	interval time.Duration
	counters []atomic.Uint64 // 24 bits of hash, 24 bits of interval, 16 bits of count
}

// hotTakes is the number of takes in an interval that makes a key hot.
const hotTakes = 4

func newHeat(interval time.Duration) heat {
	return heat{max(interval, 1), make([]atomic.Uint64, 4096)}
}

// add counts a take, and reports whether the key is now hot.
func (h *heat) add(hash uint64, now time.Duration) bool {
	counter := &h.counters[hash%uint64(len(h.counters))]
	tag := hash>>40<<40 | uint64(now/h.interval)&(1<<24-1)<<16
	count := uint64(1)
	if old := counter.Load(); old&^0xffff == tag {
		count = old&0xffff + 1
	}
	if count >= hotTakes {
		counter.Store(0)
		return true
	}
	counter.Store(tag | count)
	return false
}

// refundWay is the longest time that a refund may take to reach the store, which rejects a later one.
const refundWay = 250 * time.Millisecond

// leaseRefund is units that go back to the store.
type leaseRefund struct {
	key   *keyed[leasedKey]
	units int64
	// notAfter is the last instant, by the store's clock, at which the store may accept the refund.
	notAfter store.Instant
	gone     time.Duration // see leasedKey.lostUntil
}

// retire ends the lease of a key, and appends its refund to refunds. The caller holds the key's lock.
func (s *leaseStore) retire(refunds []leaseRefund, k *keyed[leasedKey]) []leaseRefund {
	l := k.value.current.Swap(nil)
	if l == nil {
		return refunds
	}
	return s.refund(refunds, k, l, l.left.Swap(0))
}

// refund appends the refundable part of left units to refunds, and counts the rest as lost.
func (s *leaseStore) refund(refunds []leaseRefund, k *keyed[leasedKey], l *lease, left int64) []leaseRefund {
	at, now := l.decision.At, s.time.now()
	// The time at the store is an estimate. The store checks notAfter, so it never gives back too many.
	notAfter := at + store.Instant((now-l.sent+refundWay)/time.Microsecond) + 1
	end, instant := k.limit.Advance(at)
	notAfter = min(notAfter, end-1, store.MaxInstant)
	back := int64(0)
	if soonest := at + store.Instant((now-l.got)/time.Microsecond); soonest < end {
		back = max(0, left-k.limit.Leaked(int64(notAfter-at)))
	}
	gone := time.Duration(0)
	if instant > 0 {
		gone = l.got + at.Until(instant)
	}
	if left > back {
		k.value.lose(left-back, gone)
	}
	if back == 0 {
		return refunds
	}
	k.value.away += back
	return append(refunds, leaseRefund{k, back, notAfter, gone})
}

// giveBack gives units back, with a goroutine for each key.
func (s *leaseStore) giveBack(refunds []leaseRefund) {
	for _, r := range refunds {
		s.enter() // Close waits for it
		s.after(0, func() {
			defer s.leave()
			reqs := [1]store.Request{{Key: r.key.key, Limit: r.key.limit, Cost: r.units, NotAfter: r.notAfter}}
			decisions := [1]store.Decision{}
			ctx, cancel := store.BudgetContext(context.Background(), refundWay)
			defer cancel()
			err := panics.Call(func() error { return s.Store.Decide(ctx, store.Refund, reqs[:], decisions[:]) })
			key := &r.key.value
			key.mu.Lock()
			defer key.mu.Unlock()
			if key.away -= r.units; err != nil || !decisions[0].Allowed || !isOfStore(&decisions[0]) {
				// It is too late, or the refund may have succeeded. So it is not repeated.
				key.lose(r.units, r.gone)
			}
		})
	}
}

// sweepLater schedules a sweep, unless one is scheduled.
func (s *leaseStore) sweepLater() {
	s.mu.Lock()
	coming := s.sweeping
	s.sweeping = true
	s.mu.Unlock()
	if !coming {
		s.after(max(s.Term/4, 1), func() {
			s.enter()
			defer s.leave()
			s.mu.Lock()
			s.sweeping = false
			s.mu.Unlock()
			s.sweep()
		})
	}
}

// sweep gives back units that are at their end. It repeats as long as there are leases.
func (s *leaseStore) sweep() {
	var refunds []leaseRefund
	again := false
	s.keys.each(func(k *keyed[leasedKey]) {
		if k.value.current.Load() != nil {
			refunds = s.look(refunds, k)
			again = again || k.value.current.Load() != nil
		}
	})
	s.giveBack(refunds)
	if again {
		s.sweepLater()
	}
}

// look ends the lease of a key if it is time.
func (s *leaseStore) look(refunds []leaseRefund, k *keyed[leasedKey]) []leaseRefund {
	k.value.mu.Lock()
	defer k.value.mu.Unlock()
	l := k.value.current.Load()
	if l == nil || s.time.now() < l.ends && !s.closed.Load() {
		return refunds
	}
	if l.left.Load() > 0 { // it was too many
		k.value.chunk /= 2
		k.value.cold.Store(k.value.chunk < 2)
	}
	return s.retire(refunds, k)
}
