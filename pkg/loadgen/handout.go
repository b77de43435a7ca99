package loadgen

import (
	"sync"
	"time"
)

// handout gives the requests of an open loop to the workers, in the order of the schedule. A free worker takes the
// next one and sleeps until it is due, so that no other has to be woken. A timer can be a millisecond late; then all
// that are due meanwhile are sent together, so none is lost. If no worker is free for a request, it waits, and its
// wait counts.
type handout struct {
	run *runner
	// turn is held by the worker that takes a request. It is no mutex, because the load can wait, and in tests only a wait for a
	// channel lets virtual time go on.
	turn  chan struct{}
	taken int64

	mu sync.Mutex
	// lastDue is the due time of the last request that a worker began, and lastBegun when it did.
	lastDue, lastBegun time.Duration
}

func newHandout(r *runner) *handout {
	return &handout{run: r, turn: make(chan struct{}, 1), lastDue: -1}
}

// next returns the next request, which may be due later. It returns false when there are no more.
func (h *handout) next() (a Arrival, ok bool) {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	r := h.run
	if r.complete || r.Requests > 0 && h.taken == r.Requests {
		return a, false
	}
	if a, ok = r.Load.Next(); !ok || a.Due >= r.end {
		r.complete = true
		return a, false
	}
	h.taken++
	return a, true
}

// take returns the next request when it is due, and the time then. It returns false when there are no more. The
// worker has been free since free.
func (h *handout) take(w *worker, free time.Duration) (a Arrival, now time.Duration, ok bool) {
	r := h.run
	for r.ctx.Err() == nil {
		if a, ok = h.next(); !ok {
			break
		}
		for now = r.elapsed(); now < a.Due; now = r.elapsed() {
			if !sleep(r.ctx, w.timer, a.Due-now) {
				return a, now, false
			}
		}
		if now > r.end+drainGrace || r.Timeout > 0 && now-a.Due > r.Timeout {
			r.drop(a)
			continue
		}
		w.lag, w.waited = h.lag(a.Due, now), free > a.Due
		return a, now, true
	}
	return Arrival{}, now, false
}

// lag is how late a request is begun. Requests that are due at the same instant are begun one after the other, so
// the lag of each counts from the one before it.
func (h *handout) lag(due, now time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	lag := now - due
	if due == h.lastDue {
		lag = min(lag, max(0, now-h.lastBegun))
	}
	h.lastDue, h.lastBegun = due, now
	return lag
}
