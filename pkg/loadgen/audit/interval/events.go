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
