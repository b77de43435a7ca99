package loadgen

import (
	"sync"
	"time"
)

const (
	// mostWatchers is how many workers at most sleep until a request of their own is due. As
	// many can become busy before another worker has to be woken, which costs more than the
	// sleep of one that waits anyway.
	mostWatchers = 16
	// drawnAhead is how many requests are drawn from the load at a time.
	drawnAhead = 64
)

// handout hands the requests of an open loop to the workers, in the order that they are due.
// There is nobody between the schedule and the workers. A worker that is free takes the next
// request, sleeps until it is due, and sends it; so a request costs one wake-up. A worker
// that comes back when requests are due takes one at once, without having slept. So the
// store can be late, but the schedule is not: a request that no worker was free for counts
// its wait.
//
// Up to mostWatchers workers watch, each for a request of its own. The others stand by. The
// last one that ceases to watch wakes one of them.
type handout struct {
	run *runner

	mu      sync.Mutex
	ahead   []Arrival // drawn from the load, from next on
	next    int
	drawing bool  // somebody draws from the load
	ended   bool  // the load has no more
	over    bool  // nothing more is handed out
	drawn   int64 // from the load
	// watchers counts those that are woken but do not watch yet, too.
	watchers int
	// lastDue is when the last request that was handed out was due, and lastTaken when that was.
	lastDue, lastTaken time.Duration
	standby            []*worker // the one that has been busy last comes last, and is woken first
	alarms             alarms
}

func newHandout(r *runner) *handout { return &handout{run: r, lastDue: -1, alarms: alarms{nap: r.nap}} }

// take returns the next request when it is due, and what time it is then. It returns false
// when there are no more. The worker is free since then.
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

// lag is how late a request is handed out. Requests that are due at the same instant can only
// be handed out one after the other, so each is as late as it is after the one before it.
func (h *handout) lag(due, now time.Duration) time.Duration {
	lag := now - due
	if due == h.lastDue {
		lag = min(lag, max(0, now-h.lastTaken))
	}
	h.lastDue, h.lastTaken = due, now
	return lag
}

// sleep sleeps until a request is due. The lock is held before and after it.
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

// standBy lets a worker wait until it is needed. The lock is held before and after it.
func (h *handout) standBy(w *worker) {
	h.standby = append(h.standby, w)
	h.mu.Unlock()
	<-w.wanted
	h.mu.Lock()
}

// wakeSome wakes a worker that stands by if nobody watches, and two if requests are due: each
// of them does the same.
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

// draw draws the next requests from the load. The lock is held before and after it.
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

// end has all workers come back that stand by.
func (h *handout) end() {
	h.over = true
	for len(h.standby) > 0 {
		h.wakeOne()
	}
}

// interrupt ends the handing out at once, also for those who watch.
func (h *handout) interrupt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end()
	h.alarms.interrupt()
}

// dropRest counts all later requests of the run as dropped, because the time to send them is
// over. There may be many. The lock is held before and after it.
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
