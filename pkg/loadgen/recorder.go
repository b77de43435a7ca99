package loadgen

import (
	"cmp"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// records keeps the records of one worker until the collector fetches them.
type records struct {
	// watermark is an instant by the store's clock before which the decision under way cannot be. It is idle if
	// none is under way. An answer is recorded before the watermark becomes idle.
	watermark atomic.Int64
	last      int64 // the newest instant that this worker has seen
	sending   sending

	mu     sync.Mutex
	filled batch
	// room is signalled after a fetch, for a worker that waits because it has recorded too much.
	room sync.Cond
}

// maxUnfetched is the most recorded requests of all workers that can wait for the collector. It bounds the memory
// if deciding is faster than auditing.
const maxUnfetched = 1 << 17

// batch has the records since the last fetch.
type batch struct {
	samples []sample
	answers []answer
	unknown []answer // requests that may have been charged; At is when their error came
	errors  []error
	early   int64 // answers of instants before their watermark
	// intervals are the answers with their intervals, if those are audited.
	intervals []intervalAnswer
}

func (b *batch) reset() {
	*b = batch{
		samples: b.samples[:0], answers: b.answers[:0], unknown: b.unknown[:0], errors: b.errors[:0],
		intervals: b.intervals[:0],
	}
}

// sample is the times and the outcome of one request.
type sample struct {
	answered         time.Duration // from the run's beginning
	at               store.Instant // by the store's clock
	latency, service time.Duration
	lag              time.Duration // in an open loop
	subject          uint32
	outcome          outcome
	waited, warmup   bool
	answers          uint8 // the number of its limits among the answers
}

// answer is one limit's answer to one request. It is small and without pointers, because there are millions a second.
type answer struct {
	at               store.Instant
	figures          audit.Figures
	key, cost, leave uint32 // units are at most store.MaxCount
	limit            uint8  // at most store.MaxRequests
	allowed, charged bool
	// tells: the figures are the store's, and the audit can judge them.
	tells bool
	// doubted: the order of the answer among those of its key is unknown.
	doubted bool
}

// record stores the outcome of a request, and that none is under way now. It reports whether it had to wait for room.
func (w *worker) record(r *runner, a Arrival, sent, answered time.Duration, err error) (waited bool) {
	s := sample{
		answered: answered,
		latency:  answered - a.Due,
		service:  answered - sent,
		lag:      w.lag,
		subject:  a.Subject,
		outcome:  outcomeOf(err, w.decisions),
		waited:   w.waited,
		warmup:   a.Due < r.Warmup,
	}
	own := r.Population.own
	reqs := r.Population.Requests(a.Subject)
	keys, came := r.Population.KeyIndexes(a.Subject), store.InstantOf(r.begin.Add(answered))
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case r.Intervals != nil:
		w.recordInterval(keys, own, a.Cost, sent, answered, &s)
	case s.outcome == unknown:
		for limit, key := range keys {
			w.filled.unknown = append(w.filled.unknown, answer{limit: uint8(limit), key: key, at: came,
				cost: uint32(costOf(own, limit, a.Cost))})
		}
	case s.outcome == allowed, s.outcome == denied:
		for limit := range w.decisions {
			d := &w.decisions[limit]
			one := answer{
				at: d.At, key: keys[limit], cost: uint32(costOf(own, limit, a.Cost)), leave: uint32(reqs[limit].Leave),
				limit: uint8(limit), allowed: d.Allowed, charged: d.Allowed && s.outcome == allowed, tells: !r.mute,
				figures: audit.Figures{
					Used: d.Used, Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter,
					Delay: d.Delay,
				},
			}
			if r.mute && !one.charged {
				one.figures.Used = math.MaxInt64 // after all that can explain it
			}
			if d.At != 0 && int64(d.At) < w.watermark.Load()-r.Skew.Microseconds() {
				w.filled.early++
				one.doubted = true
			}
			if int64(d.At-came) <= r.ahead.Load() {
				w.last = max(w.last, int64(d.At))
			}
			w.filled.answers = append(w.filled.answers, one)
		}
		s.at, s.answers = w.decisions[0].At, uint8(len(w.decisions))
	}
	w.filled.samples = append(w.filled.samples, s)
	if err != nil && !s.warmup {
		w.filled.errors = append(w.filled.errors, err)
	}
	w.watermark.Store(idle)
	w.sending.since.Store(idle)
	for len(w.filled.samples) >= max(maxUnfetched/r.Workers, 1) && r.collecting.Err() == nil {
		waited = true
		w.room.Wait()
	}
	if waited {
		r.throttled.Store(true)
	}
	return waited
}

// fetch takes the records and leaves an empty batch.
func (w *worker) fetch(empty batch) batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	full := w.filled
	w.filled = empty
	w.room.Signal()
	return full
}

// turn puts answers in a possible order of their decisions. Within one instant, an answer with a lower usage came
// earlier, and a charge came before the answers that found it in use, of which the denials come last.
type turn struct {
	at    store.Instant
	used  int64
	index int32 // among those not yet audited
	last  int8
}

func (a *answer) turn(index int) turn {
	t := turn{at: a.at, used: a.figures.Used, index: int32(index)}
	if !a.charged {
		t.last++
	}
	if !a.allowed {
		t.last++
	}
	return t
}

func compareTurns(a, b turn) int {
	switch {
	case a.at != b.at:
		return cmp.Compare(a.at, b.at)
	case a.used != b.used:
		return cmp.Compare(a.used, b.used)
	}
	return int(a.last - b.last)
}
