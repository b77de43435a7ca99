package loadgen

import "time"

// queueLength is how many requests wait for a worker at most. They are dropped for
// having waited too long well before, but at a great rate.
const queueLength = 1 << 17

// queued is a request that was handed out.
type queued struct {
	Arrival
	waits bool // until one of the workers, which are all busy, has answered another
}

// dispatch hands requests out as they fall due. It never waits for the store, so what
// makes it late is this machine.
func (r *runner) dispatch(queue chan<- queued) {
	defer close(queue)
	nap := r.nap
	if nap == nil {
		nap = exactSleeper()
	}
	lags := make([]int64, 0, lagBatch)
	defer func() { r.collector.addLags(lags) }()
	for sent := int64(0); r.Requests == 0 || sent < r.Requests; sent++ {
		if sent%lagBatch == 0 && r.ctx.Err() != nil { // one that is behind never waits
			return
		}
		a, ok := r.Load.Next()
		if !ok || a.Due >= r.end {
			r.complete = true
			return
		}
		now := r.elapsed()
		if now > r.end+drainGrace {
			r.dropRest(a, sent)
			return
		}
		for now < a.Due {
			if len(lags) > 0 {
				r.collector.addLags(lags)
				lags = lags[:0]
			}
			if r.ctx.Err() != nil {
				return
			}
			if wait := min(a.Due-now, longestSleep); wait > shortSleep {
				time.Sleep(wait - shortSleep)
			} else {
				nap(wait)
			}
			now = r.elapsed()
		}
		if a.Due >= r.Warmup {
			if lags = append(lags, int64(now-a.Due)); len(lags) == lagBatch {
				r.collector.addLags(lags)
				lags = lags[:0]
			}
		}
		select {
		case queue <- queued{a, r.handedOut.Add(1) > int64(len(r.workers))}:
		default:
			r.handedOut.Add(-1)
			r.drop(a)
		}
	}
}

// dropRest counts what was due from a on, after the time to send it is over. There may
// be much of it.
func (r *runner) dropRest(a Arrival, sent int64) {
	for ok := true; ok && a.Due < r.end && (r.Requests == 0 || sent < r.Requests) && r.ctx.Err() == nil; sent++ {
		r.drop(a)
		a, ok = r.Load.Next()
	}
}

const (
	lagBatch = 64
	// longestSleep bounds how long an interrupt goes unnoticed.
	longestSleep = 50 * time.Millisecond
	// shortSleep is what the runtime's timers, which wake up to a millisecond late,
	// are not good enough for.
	shortSleep = 2 * time.Millisecond
)
