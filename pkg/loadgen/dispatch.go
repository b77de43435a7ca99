package loadgen

import "time"

// queueLength is how many requests may wait for a worker. Only at a very high rate is
// that reached before requests are dropped for having waited too long.
const queueLength = 1 << 17

// queued is a request that was handed out.
type queued struct {
	Arrival
	waits bool // because all workers are busy
}

// dispatch hands requests out as they fall due. It never waits for the store, so only
// this machine can make it late.
func (r *runner) dispatch(queue chan<- queued) {
	defer close(queue)
	nap := r.nap
	if nap == nil {
		nap = exactSleeper()
	}
	lags := make([]int64, 0, lagBatch)
	defer func() { r.collector.addLags(lags) }()
	for sent := int64(0); r.Requests == 0 || sent < r.Requests; sent++ {
		if sent%lagBatch == 0 && r.ctx.Err() != nil { // a run that is behind never sleeps, and looks only here
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

// dropRest counts a and all later requests of the run as dropped, because the time to
// send them is over. There may be many.
func (r *runner) dropRest(a Arrival, sent int64) {
	for ok := true; ok && a.Due < r.end && (r.Requests == 0 || sent < r.Requests) && r.ctx.Err() == nil; sent++ {
		r.drop(a)
		a, ok = r.Load.Next()
	}
}

const (
	lagBatch = 64
	// longestSleep is the longest that an interrupt goes unnoticed.
	longestSleep = 50 * time.Millisecond
	// shortSleep is the sleep below which the runtime's timers are not exact enough: they
	// wake up to a millisecond late.
	shortSleep = 2 * time.Millisecond
)
