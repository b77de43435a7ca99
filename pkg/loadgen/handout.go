package loadgen

import (
	"sync"
	"time"
)

// handout gives the requests of an open loop to the workers, in the order of the schedule, each when it is due. A
// timer can be a millisecond late; then all that are due meanwhile are sent together, so none is lost. If no worker
// is free for a request, it waits, and its wait counts.
type handout struct {
	run *runner
	due chan Arrival

	mu sync.Mutex
	// lastDue is the due time of the last request that was taken, and lastTaken when it was taken.
	lastDue, lastTaken time.Duration
}

func newHandout(r *runner) *handout { return &handout{run: r, due: make(chan Arrival), lastDue: -1} }

// pace hands out the requests until the load or the run ends.
func (h *handout) pace() {
	defer close(h.due)
	r, now, timer := h.run, time.Duration(0), time.NewTimer(0)
	for n := int64(0); r.Requests == 0 || n < r.Requests; n++ {
		a, ok := r.Load.Next()
		if !ok || a.Due >= r.end {
			r.complete = true
			return
		}
		for a.Due > now {
			if now = r.elapsed(); a.Due > now && !sleep(r.ctx, timer, a.Due-now) {
				return
			}
		}
		select {
		case h.due <- a:
		case <-r.ctx.Done():
			return
		}
	}
}

// take returns the next request when it is due, and the time then. It returns false when there are no more. The
// worker has been free since free.
func (h *handout) take(w *worker, free time.Duration) (a Arrival, now time.Duration, ok bool) {
	r := h.run
	for a = range h.due {
		if r.ctx.Err() != nil {
			break
		}
		if now = r.elapsed(); now > r.end+drainGrace || r.Timeout > 0 && now-a.Due > r.Timeout {
			r.drop(a)
			continue
		}
		w.lag, w.waited = h.lag(a.Due, now), free > a.Due
		return a, now, true
	}
	return Arrival{}, now, false
}

// lag is how late a request is taken. Requests that are due at the same instant are taken one after the other, so
// the lag of each counts from the one before it.
func (h *handout) lag(due, now time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	lag := now - due
	if due == h.lastDue {
		lag = min(lag, max(0, now-h.lastTaken))
	}
	h.lastDue, h.lastTaken = due, now
	return lag
}
