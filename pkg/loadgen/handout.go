package loadgen

import (
	"sync"
	"time"
)

const (
	// mostWatchers is the most workers that each sleep until a request is due. That many can become busy before
	// another worker has to be woken, which costs more than the end of a sleep.
	mostWatchers = 16
	// drawnAhead is the number of requests that are drawn from the load at a time.
	drawnAhead = 64
)

// handout gives the requests of an open loop to the workers, in the order of the schedule. Nothing is between the
// schedule and the workers: a free worker takes the next request, sleeps until it is due, and sends it. So a
// request costs one wake-up. A worker that comes back when requests are due takes one at once, without a sleep. So
// the store can be late, but the schedule is not: if no worker is free for a request, its wait counts.
//
// Up to mostWatchers workers watch, each for its own request. The others stand by. The last one that stops watching
// wakes one of them.
type handout struct {
	run *runner

	mu      sync.Mutex
	ahead   []Arrival // drawn from the load, from next on
	next    int
	drawing bool  // a worker draws from the load
	ended   bool  // the load has no more
	over    bool  // nothing more is handed out
	drawn   int64 // from the load
	// watchers includes workers that are woken but do not yet watch.
	watchers int
	// lastDue is the due time of the last request that was taken, and lastTaken when it was taken.
	lastDue, lastTaken time.Duration
	standby            []*worker // the last has been busy most recently, and is woken first
	alarms             alarms
}

func newHandout(r *runner) *handout { return &handout{run: r, lastDue: -1, alarms: alarms{nap: r.nap}} }

// take returns the next request when it is due, and the time then. It returns false when there are no more. The
// worker has been free since free.
func (h *handout) take(w *worker, free time.Duration) (a Arrival, now time.Duration, ok bool) {
	r, watching := h.run, false
	now = r.elapsed()
	h.mu.Lock()
	for {
		switch {
		case h.over:
			h.mu.Unlock()
			return Arrival{}, now, false
		case h.next == len(h.ahead) && h.ended:
			h.end()
			continue
		case now > r.end+drainGrace && !h.drawing:
			h.dropRest()
			continue
		case h.next == len(h.ahead) && !h.drawing:
			h.draw()
			now = r.elapsed()
			continue
		case h.next == len(h.ahead), !watching && h.watchers >= mostWatchers && h.ahead[h.next].Due > now:
			if watching {
				h.watchers--
			}
			h.standBy(w)
			watching, now = true, r.elapsed()
			continue
		}
		a = h.ahead[h.next]
		h.next++
		if r.Timeout > 0 && now-a.Due > r.Timeout {
			r.drop(a)
			continue
		}
		break
	}
	if a.Due > now {
		if !watching {
			h.watchers++
		}
		now = h.sleep(a.Due, now)
		watching = true
	}
	if watching {
		h.watchers--
	}
	h.wakeSome(now)
	w.lag = h.lag(a.Due, now)
	h.mu.Unlock()
	w.waited = free > a.Due
	return a, now, r.ctx.Err() == nil
}

// lag is how late a request is taken. Requests that are due at the same instant are taken one after the other, so
// the lag of each counts from the one before it.
func (h *handout) lag(due, now time.Duration) time.Duration {
	lag := now - due
	if due == h.lastDue {
		lag = min(lag, max(0, now-h.lastTaken))
	}
	h.lastDue, h.lastTaken = due, now
	return lag
}

// sleep sleeps until a request is due. The caller holds the lock; it is released meanwhile.
func (h *handout) sleep(due, now time.Duration) time.Duration {
	alarm := h.alarms.take()
	h.mu.Unlock()
	for now < due && h.run.ctx.Err() == nil {
		alarm.Wait(due - now)
		now = h.run.elapsed()
	}
	h.mu.Lock()
	h.alarms.give(alarm)
	return now
}

// standBy makes a worker wait until it is needed. The caller holds the lock; it is released meanwhile.
func (h *handout) standBy(w *worker) {
	h.standby = append(h.standby, w)
	h.mu.Unlock()
	<-w.wanted
	h.mu.Lock()
}

// wakeSome wakes a worker that stands by if none watches, and two if requests are due: each of them does the same.
func (h *handout) wakeSome(now time.Duration) {
	if h.watchers > 0 || h.over {
		return
	}
	h.wakeOne()
	if h.next+1 < len(h.ahead) && h.ahead[h.next+1].Due <= now {
		h.wakeOne()
	}
}

func (h *handout) wakeOne() {
	last := len(h.standby) - 1
	if last < 0 {
		return
	}
	h.watchers++
	h.standby[last].wanted <- struct{}{}
	h.standby = h.standby[:last]
}

// draw draws the next requests from the load. The caller holds the lock; it is released meanwhile.
func (h *handout) draw() {
	h.drawing = true
	h.mu.Unlock()
	r, ended, complete := h.run, false, false
	ahead := h.ahead[:0]
	for len(ahead) < drawnAhead && !ended {
		if r.Requests > 0 && h.drawn == r.Requests {
			ended = true
			break
		}
		a, ok := r.Load.Next()
		if !ok || a.Due >= r.end {
			ended, complete = true, true
			break
		}
		h.drawn++
		ahead = append(ahead, a)
	}
	h.mu.Lock()
	h.ahead, h.next, h.drawing, h.ended, r.complete = ahead, 0, false, ended, complete
}

// end wakes all workers that stand by, to return.
func (h *handout) end() {
	h.over = true
	for len(h.standby) > 0 {
		h.wakeOne()
	}
}

// interrupt ends the run at once, also for workers that watch.
func (h *handout) interrupt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end()
	h.alarms.interrupt()
}

// dropRest counts all later requests of the run as dropped, because the time to send them is over. There can be
// many. The caller holds the lock; it is released meanwhile.
func (h *handout) dropRest() {
	for !h.over {
		for _, a := range h.ahead[h.next:] {
			h.run.drop(a)
		}
		if h.next = len(h.ahead); h.ended {
			return
		}
		h.draw()
	}
}
