package layers

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// refundWay is the longest time that a refund may take to reach the store. Units that could leak until then are not
// given back, and the store rejects a refund that comes later.
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
	// The time at the store is only an estimate here. The store checks notAfter, so a wrong estimate costs units,
	// but never gives back too many.
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
		s.after(max(s.idle()/2, 1), func() {
			s.enter()
			defer s.leave()
			s.mu.Lock()
			s.sweeping = false
			s.mu.Unlock()
			s.sweep()
		})
	}
}

// sweep gives back units that are idle or at their end. It repeats as long as there are leases.
func (s *leaseStore) sweep() {
	var refunds []leaseRefund
	again := false
	for i := range s.keys.sets {
		for j := range s.keys.sets[i].slots {
			k := s.keys.sets[i].slots[j].Load()
			if k == nil || k.value.current.Load() == nil {
				continue
			}
			if refunds = s.look(refunds, k); k.value.current.Load() != nil {
				again = true
			}
		}
	}
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
	if l == nil {
		return refunds
	}
	now, left := s.time.now(), l.left.Load()
	if left != l.seenLeft {
		l.seenLeft, l.seenSince = left, now
	}
	if now < l.ends && now-l.seenSince < s.idle() && !s.closed.Load() {
		return refunds
	}
	if left > 0 {
		k.value.slower()
	}
	return s.retire(refunds, k)
}
