package layers

import (
	"context"
	"sync"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// waiter is a caller that waits for units of a key.
type waiter struct {
	cost     int64
	deadline time.Time     // zero for none
	answered chan struct{} // with a buffer of one
	// The answer: a decision, an error, or that the caller should call the store itself.
	decision store.Decision
	err      error
	alone    bool

	// Guarded by the key's lock.
	queued     bool
	prev, next *waiter
	askedBy    *asking // the call for it, nil if there is none yet
}

// asking is a call of the store under way, for several waiting callers.
type asking struct {
	callers int // that still wait
	cancel  context.CancelFunc
}

// newWaiter returns a waiter from pool; release puts it back.
func newWaiter(ctx context.Context, pool *sync.Pool, cost int64) *waiter {
	w, reused := pool.Get().(*waiter)
	if !reused {
		w = &waiter{answered: make(chan struct{}, 1)}
	}
	w.cost = cost
	w.deadline, _ = ctx.Deadline()
	return w
}

// release ends the use of a waiter that was answered.
func (w *waiter) release(pool *sync.Pool) {
	*w = waiter{answered: w.answered}
	pool.Put(w)
}

// answer wakes the caller, after its answer was set.
func (w *waiter) answer() { w.answered <- struct{}{} }

// waiters is a queue that a waiter can leave from any place.
type waiters struct{ first, last *waiter }

func (q *waiters) push(w *waiter) {
	w.queued, w.prev = true, q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
}

// remove removes w from the queue, and reports whether it was in it.
func (q *waiters) remove(w *waiter) bool {
	if !w.queued {
		return false
	}
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queued, w.prev, w.next = false, nil, nil
	return true
}
