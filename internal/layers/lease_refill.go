package layers

import (
	"context"
	"errors"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// refill calls the store for units until nobody waits for any.
func (s *leaseStore) refill(values context.Context, k *keyed[leasedKey]) {
	key := &k.value
	for {
		key.mu.Lock()
		if key.queue.Len() == 0 {
			key.refilling = false
			key.mu.Unlock()
			return
		}
		call := new(asking)
		cost, chunk, last := key.demand(call, s.time.now(), s.Term)
		var ctx context.Context
		if last.IsZero() {
			ctx, call.cancel = context.WithCancel(values)
		} else {
			ctx, call.cancel = context.WithDeadline(values, last)
		}
		key.mu.Unlock()
		answer, err := s.ask(ctx, k, cost, chunk)
		call.cancel()
		s.giveBack(s.share(k, call, answer, err))
	}
}

// demand assigns all waiting callers to call, and returns the units that they need and the units to take in
// advance. It takes at most half of the store's remaining units in advance. It also returns the last of their
// deadlines, zero if one has none.
func (k *leasedKey) demand(call *asking, now, term time.Duration) (cost, chunk int64, last time.Time) {
	k.adapt(now, term)
	limited := true
	for e := k.queue.Front(); e != nil; e = e.Next() {
		w := e.Value.(*waiter)
		w.askedBy = call
		call.callers++
		cost += w.cost
		limited = limited && !w.deadline.IsZero()
		if w.deadline.After(last) {
			last = w.deadline
		}
	}
	if !limited {
		last = time.Time{}
	}
	return cost, min(k.chunk, k.room(now), k.remaining/2), last
}

// leaseAnswer is the store's answer to a request for units.
type leaseAnswer struct {
	decision  store.Decision
	cost      int64 // the cost of the request, which the store has charged if it allowed it
	sent, got time.Duration
}

// ask takes units from the store: first all, then, if they do not fit, as many as the store says remain, and
// finally only those that the first caller needs.
func (s *leaseStore) ask(ctx context.Context, k *keyed[leasedKey], cost, chunk int64) (a leaseAnswer, err error) {
	reach := k.request(0)
	a.cost = min(cost+chunk, reach.Capacity())
	for tries := 0; ; tries++ {
		reqs, decisions := [1]store.Request{k.request(a.cost)}, [1]store.Decision{}
		a.sent = s.time.now()
		err = panics.Call(func() error { return s.Store.Decide(ctx, store.Take, reqs[:], decisions[:]) })
		a.decision, a.got = decisions[0], s.time.now()
		if err != nil || a.decision.Allowed || !isOfStore(&a.decision) {
			return a, err
		}
		first := k.value.firstCost()
		switch {
		case first == 0 || a.cost == first: // nobody waits, or the first caller was denied
			return a, nil
		case tries == 0 && a.decision.Remaining >= first:
			a.cost = min(a.decision.Remaining, a.cost)
		default:
			a.cost = first
		}
	}
}

// firstCost returns the cost of the first caller in the queue, 0 if there is none.
func (k *leasedKey) firstCost() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queue.Len() == 0 {
		return 0
	}
	return k.queue.Front().Value.(*waiter).cost
}

// share gives the store's answer to the callers that wait for it, and makes a lease of the rest. It returns what
// has to go back.
func (s *leaseStore) share(k *keyed[leasedKey], call *asking, a leaseAnswer, err error) (refunds []leaseRefund) {
	key := &k.value
	key.mu.Lock()
	defer key.mu.Unlock()
	switch {
	case err != nil:
		if errors.Is(err, store.ErrOutcomeUnknown) || !knownUncharged(err) {
			key.lose(a.cost, unknownUntil(&k.limit, a.got))
		}
		key.cold.Store(true)
		key.answerAsked(call, func(w *waiter) { w.err = err })
		return nil
	case !isOfStore(&a.decision):
		key.cold.Store(true)
		key.answerAsked(call, func(w *waiter) { w.alone = true })
		return nil
	case !a.decision.Allowed:
		// Those with another cost call the store themselves.
		key.cold.Store(true)
		key.answerAsked(call, func(w *waiter) { w.decision, w.alone = a.decision, w.cost != a.cost })
		return nil
	}
	at := a.decision.At
	end, gone := k.limit.Advance(at)
	reach := k.request(0)
	l := &lease{decision: a.decision, capacity: reach.Capacity(), sent: a.sent, got: a.got}
	// The store decided between sent and got. The earlier one is the safe assumption.
	l.ends = a.sent + s.Term
	if inWindow := end - at; inWindow < store.Instant(s.Term/time.Microsecond) {
		l.ends = a.sent + time.Duration(inWindow)*time.Microsecond
	}
	l.seenLeft, l.seenSince = a.cost, a.got
	key.remaining = a.decision.Remaining
	if gone == 0 {
		key.lost = min(key.lost, a.decision.Used-a.cost) // at most all that is in use is theirs
	}
	left := a.cost
	for key.queue.Len() > 0 {
		w := key.queue.Front().Value.(*waiter)
		if w.cost > left {
			break
		}
		if w.askedBy != call && a.got >= l.ends {
			break // for a later caller these units are too old
		}
		left -= w.cost
		l.answer(w.cost, left, &w.decision)
		if w.askedBy == call {
			w.decision.DecidedBy = store.DecidedByStore
		}
		key.leave(w)
		w.answer()
	}
	refunds = s.retire(refunds, k)
	l.left.Store(left)
	key.current.Store(l)
	if extra := left - max(0, key.bound-key.held(a.got)); extra > 0 {
		// Callers have left whose units remain.
		l.left.Store(left - extra)
		refunds = s.refund(refunds, k, l, extra)
	}
	if key.evicted || s.closed.Load() {
		return s.retire(refunds, k)
	}
	s.sweepLater()
	return refunds
}

// knownUncharged reports whether an error says that nothing was charged.
func knownUncharged(err error) bool {
	for _, known := range []error{
		store.ErrUnavailable, store.ErrInvalid, store.ErrRefused, store.ErrForeign, store.ErrGaveUp, store.ErrClosed,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// answerAsked answers the callers that a call was made for.
func (k *leasedKey) answerAsked(call *asking, set func(*waiter)) {
	for e := k.queue.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if w.askedBy == call {
			k.leave(w)
			set(w)
			w.answer()
		}
	}
}

// unknownUntil returns until when units count that may have been charged about now; 0 if that depends on other
// charges.
func unknownUntil(limit *store.Limit, now time.Duration) time.Duration {
	if _, gone := limit.Advance(0); gone == 0 {
		return 0
	}
	return now + 2*limit.Period + refundWay
}

// lose counts units that may have been charged and cannot go back. They stop counting after until, if that is not
// 0.
func (k *leasedKey) lose(units int64, until time.Duration) {
	k.lost += units
	k.lostUntil = max(k.lostUntil, until)
}
