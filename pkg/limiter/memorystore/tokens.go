package memorystore

import (
	"container/heap"
	"slices"
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// tokens remembers calls by their tokens. Its lock is held during the decision on such a call, so that charge and
// memory are one step. It is taken before the locks of stripes.
type tokens struct {
	mu      sync.Mutex
	byToken map[string]*token
	byEnd   tokenHeap
}

// token is a remembered token.
type token struct {
	text   string
	record store.TokenRecord
	index  int // in the heap
}

// decideCharging decides the calls for which [store.IsCharging] is true.
func (s *Store) decideCharging(op store.Op, reqs []store.Request, decisions []store.Decision) error {
	reqs, err := store.NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	text := reqs[0].Token
	var known store.TokenRecord
	if text != "" {
		s.tokens.mu.Lock()
		defer s.tokens.mu.Unlock()
		s.tokens.forgetOld(s.clock())
		if t := s.tokens.byToken[text]; t != nil {
			known = t.record
		}
	}
	var record store.TokenRecord
	var changes store.Changes
	err = s.decideSeveral(reqs, decisions, func(states []*store.State, now store.Instant) (_ bool, err error) {
		record = known
		record.Charges = slices.Clone(known.Charges)
		changes, err = store.DecideCharging(op, reqs, states, decisions, &record, now)
		return changes.States, err
	})
	if err == nil && changes.Token {
		s.tokens.keep(text, record)
	}
	return err
}

// keep remembers record for text, or forgets text if record is zero.
func (t *tokens) keep(text string, record store.TokenRecord) {
	known := t.byToken[text]
	switch {
	case record.IsZero() && known != nil:
		heap.Remove(&t.byEnd, known.index)
		delete(t.byToken, text)
	case record.IsZero():
	case known != nil:
		known.record = record
		heap.Fix(&t.byEnd, known.index)
	default:
		if t.byToken == nil {
			t.byToken = map[string]*token{}
		}
		known = &token{text: text, record: record}
		t.byToken[text] = known
		heap.Push(&t.byEnd, known)
	}
}

// forgetOld removes tokens that have ended at now. Each call with a token does so, and thus the memory holds only
// valid tokens and those that ended since the last such call.
func (t *tokens) forgetOld(now store.Instant) {
	for len(t.byEnd) > 0 && t.byEnd[0].record.Expires <= now {
		delete(t.byToken, heap.Pop(&t.byEnd).(*token).text)
	}
	if len(t.byEnd) == 0 {
		t.byToken, t.byEnd = nil, nil // a map never shrinks
	}
}

// tokenHeap is a heap by the end of tokens.
type tokenHeap []*token

// Len implements [heap.Interface].
func (h tokenHeap) Len() int { return len(h) }

// Less implements [heap.Interface].
func (h tokenHeap) Less(i, j int) bool { return h[i].record.Expires < h[j].record.Expires }

// Swap implements [heap.Interface].
func (h tokenHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *tokenHeap) Push(added any) {
	t := added.(*token)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements [heap.Interface].
func (h *tokenHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	return t
}
