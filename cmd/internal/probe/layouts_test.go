package probe

import (
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Simulated limiters of others, by what is known of their arithmetic.

// nginxLimit is limit_req: the excess in thousandths of a request, in whole milliseconds, of a
// rate in thousandths of a request a second.
type nginxLimit struct {
	rate, burst int64
	excess      map[string][2]int64 // excess, milliseconds
}

func (n *nginxLimit) decide(subject string, now store.Instant) bool {
	ms := int64(now) / 1000
	if n.excess == nil {
		n.excess = make(map[string][2]int64)
	}
	was, known := n.excess[subject]
	if !known {
		n.excess[subject] = [2]int64{0, ms}
		return true
	}
	excess := max(0, was[0]-n.rate*(ms-was[1])/1000+1000)
	if excess > n.burst*1000 {
		return false
	}
	n.excess[subject] = [2]int64{excess, ms}
	return true
}

// haproxyRate is http_req_rate of a stick-table: two windows, the first of which begins with
// the first request, that count denied requests, too.
type haproxyRate struct {
	most   int64
	period int64 // milliseconds
	tables map[string]*haproxyCounter
}

type haproxyCounter struct{ begin, current, previous int64 }

func (h *haproxyRate) decide(subject string, now store.Instant) bool {
	ms := int64(now) / 1000
	if h.tables == nil {
		h.tables = make(map[string]*haproxyCounter)
	}
	c := h.tables[subject]
	if c == nil {
		c = &haproxyCounter{begin: ms}
		h.tables[subject] = c
	}
	switch elapsed := ms - c.begin; {
	case elapsed >= 2*h.period:
		*c = haproxyCounter{begin: ms}
	case elapsed >= h.period:
		*c = haproxyCounter{begin: c.begin + h.period, previous: c.current}
	}
	c.current++
	remains := h.period - (ms - c.begin)
	return c.current+c.previous*remains/h.period <= h.most
}

// roundedCounter is two windows that rounds what counts of the one before to the nearest whole number,
// as Go's httprate.
type roundedCounter struct {
	most   int64
	period store.Instant
	counts map[string]map[store.Instant]int64
}

func (r *roundedCounter) decide(subject string, now store.Instant) bool {
	if r.counts == nil {
		r.counts = make(map[string]map[store.Instant]int64)
	}
	if r.counts[subject] == nil {
		r.counts[subject] = make(map[store.Instant]int64)
	}
	windows, begin := r.counts[subject], now-now%r.period
	share := float64(r.period-(now-begin)) / float64(r.period)
	if int64(math.Round(float64(windows[begin-r.period])*share))+windows[begin]+1 > r.most {
		return false
	}
	windows[begin]++
	return true
}

// refreshedCounter is INCR followed by EXPIRE each time, so that who goes on asking stays out.
type refreshedCounter struct {
	most   int64
	period store.Instant
	counts map[string]*[2]int64
}

func (r *refreshedCounter) decide(subject string, now store.Instant) bool {
	if r.counts == nil {
		r.counts = make(map[string]*[2]int64)
	}
	c := r.counts[subject]
	if c == nil || now >= store.Instant(c[1]) {
		c = new([2]int64)
		r.counts[subject] = c
	}
	c[0]++
	c[1] = int64(now + r.period)
	return c[0] <= r.most
}

// countedLog is a log that denied requests are written into, too.
type countedLog struct {
	most   int
	period store.Instant
	logs   map[string][]store.Instant
}

func (l *countedLog) decide(subject string, now store.Instant) bool {
	if l.logs == nil {
		l.logs = make(map[string][]store.Instant)
	}
	log := l.logs[subject]
	for len(log) > 0 && log[0] <= now-l.period {
		log = log[1:]
	}
	l.logs[subject] = append(log, now)
	return len(log) < l.most
}

// intervals is a bucket that is filled up at whole periods since its subject's first request.
type intervals struct {
	most    int64
	period  store.Instant
	windows map[string]*[3]int64
}

func (w *intervals) decide(subject string, now store.Instant) bool {
	if w.windows == nil {
		w.windows = make(map[string]*[3]int64)
	}
	c := w.windows[subject]
	if c == nil {
		c = &[3]int64{int64(now)}
		w.windows[subject] = c
	}
	if window := (int64(now) - c[0]) / int64(w.period); window != c[1] {
		c[1], c[2] = window, 0
	}
	c[2]++
	return c[2] <= w.most
}

// milliseconds begins windows with a first request by a clock of whole milliseconds, as
// express-rate-limit does.
type milliseconds struct {
	most   int64
	period store.Instant
	ends   map[string]store.Instant
	used   map[string]int64
}

func (w *milliseconds) decide(subject string, now store.Instant) bool {
	if w.ends == nil {
		w.ends, w.used = make(map[string]store.Instant), make(map[string]int64)
	}
	if now -= now % 1000; w.ends[subject] <= now {
		w.ends[subject], w.used[subject] = now+w.period, 0
	}
	w.used[subject]++
	return w.used[subject] <= w.most
}

// banning lets nobody in for a while after a denial.
type banning struct {
	decider
	ban    time.Duration
	banned map[string]store.Instant
}

func (b *banning) decide(subject string, now store.Instant) bool {
	if b.banned == nil {
		b.banned = make(map[string]store.Instant)
	}
	if now < b.banned[subject] {
		return false
	}
	allowed := b.decider.decide(subject, now)
	if !allowed {
		b.banned[subject] = now + store.Instant(b.ban.Microseconds())
	}
	return allowed
}

// open has no limit.
type open struct{}

func (open) decide(string, store.Instant) bool { return true }
