package interval

import "github.com/limitctl/limitctl/pkg/limiter/store"

// event is the first instant at which a request can have been decided, or the last one.
type event struct {
	at     store.Instant
	lo, hi store.Instant // the interval of the request, both ends within
	cost   int64
	id     uint64 // of a denial, in the order in which those of a key began
	key    uint32
	answer Answer
	end    bool
	// reported is what the answer reported; nil if nothing.
	reported *Reported
}

// before puts events in order. At one instant intervals begin before others end, since they
// share that instant.
func (e *event) before(f *event) bool {
	return e.at < f.at || e.at == f.at && !e.end && f.end
}

// events is a heap of events, the first on top.
type events []event

func (q *events) push(e event) {
	*q = append(*q, e)
	h := *q
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// pop takes the first of the events, of which there must be one.
func (q *events) pop() event {
	h := *q
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = last
	return first
}

// queue is first in, first out.
type queue[T any] struct {
	list []T
	head int
}

func (q *queue[T]) push(value T) {
	if q.head > len(q.list)/2 {
		n := copy(q.list, q.list[q.head:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, value)
}

// first returns the oldest, or nil.
func (q *queue[T]) first() *T {
	if q.head == len(q.list) {
		return nil
	}
	return &q.list[q.head]
}

// last returns the newest, or nil.
func (q *queue[T]) last() *T {
	if q.head == len(q.list) {
		return nil
	}
	return &q.list[len(q.list)-1]
}

// pop drops the oldest.
func (q *queue[T]) pop() { q.head++ }

// pairs is units by instants, in the order of those.
type pairs struct{ queue[pair] }

func (p *pairs) add(at store.Instant, units int64) {
	if last := p.last(); last != nil && last.at == at {
		last.units += units
		return
	}
	p.push(pair{at, units})
}

// take takes up to most units of the first instant.
func (p *pairs) take(most int64) (at store.Instant, units int64) {
	first := p.first()
	at, units = first.at, min(most, first.units)
	if first.units -= units; first.units == 0 {
		p.pop()
	}
	return at, units
}

// pair is units at an instant.
type pair struct {
	at    store.Instant
	units int64
}

// steps is how many instants of a span are told apart, which bounds the memory.
const steps = 4096

// recent is units by instants, of the last span of time.
type recent struct {
	pairs
	span, step store.Instant
	units      int64
}

func newRecent(span store.Instant) recent { return recent{span: span, step: max(1, span/steps)} }

func (r *recent) add(at store.Instant, units int64) {
	if units > 0 {
		r.pairs.add(at, units)
		r.units += units
	}
}

// at forgets what is gone at an instant, and returns the units that are left.
func (r *recent) at(at store.Instant) int64 {
	for first := r.first(); first != nil && first.at+r.span <= at; first = r.first() {
		r.units -= first.units
		r.pop()
	}
	return r.units
}

// before forgets what lies before an instant.
func (r *recent) before(at store.Instant) { r.at(at + r.span - 1) }

// since returns the units that are left at a later instant, and forgets what is gone at an earlier one.
func (r *recent) since(now, later store.Instant) int64 {
	units := r.units
	if later > now {
		units = r.at(now)
	}
	for i := r.head; i < len(r.list) && r.list[i].at+r.span <= later; i++ {
		units -= r.list[i].units
	}
	return units
}
