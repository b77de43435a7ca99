package layers

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// turnQueue has the callers with a place at a key, in the order of arrival. It is a search tree that random ranks keep
// balanced (a treap), so the work for an answer hardly grows with the number of those who wait.
type turnQueue struct {
	root *spot
	// answer is the last denial that one of them got from the store, and answered its local time.
	answer   store.Decision
	answered time.Time
	steps    *int // of the work in all queues, for tests
}

// spot is where a caller stands in a queue.
type spot struct {
	*place
	at          int // the index of its request for the key
	rank        uint64
	left, right *spot // those who came earlier and later, with lower ranks

	// Of this spot and all below it:
	least  int64     // nobody who has to wait leaves less
	taking int64     // the cost of those who pass
	ends   time.Time // before that no wait of one who sleeps must end; zero for never
}

// order is that of the queue. No two spots have the same, since the numbers of two calls differ by the requests of one.
func (s *spot) order() uint64 { return s.number + uint64(s.at) }

// add gives p a place for its request i.
func (q *turnQueue) add(p *place, i int) *spot {
	s := &spot{place: p, at: i, rank: rand.Uint64()}
	q.sum(s)
	before, after := q.split(q.root, s.order())
	q.root = q.join(q.join(before, s), after)
	return s
}

func (q *turnQueue) remove(s *spot) {
	before, rest := q.split(q.root, s.order())
	_, after := q.split(rest, s.order()+1)
	q.root = q.join(before, after)
}

// split divides a tree into those before and those from order on.
func (q *turnQueue) split(s *spot, order uint64) (before, after *spot) {
	switch {
	case s == nil:
		return nil, nil
	case s.order() < order:
		s.right, after = q.split(s.right, order)
		before = s
	default:
		before, s.left = q.split(s.left, order)
		after = s
	}
	q.sum(s)
	return before, after
}

// join makes one tree of two, the first of which is before the second.
func (q *turnQueue) join(before, after *spot) *spot {
	switch {
	case before == nil:
		return after
	case after == nil:
		return before
	case before.rank > after.rank:
		before.right = q.join(before.right, after)
		q.sum(before)
		return before
	}
	after.left = q.join(before, after.left)
	q.sum(after)
	return after
}

// renew is needed after a change of s, for all above it. from is the root.
func (q *turnQueue) renew(from, s *spot) {
	switch {
	case s.order() < from.order():
		q.renew(from.left, s)
	case s.order() > from.order():
		q.renew(from.right, s)
	}
	q.sum(from)
}

// sum sets what s says of itself and those below it.
func (q *turnQueue) sum(s *spot) {
	*q.steps++
	req := &s.reqs[s.at]
	s.least, s.taking, s.ends = req.Leave, 0, time.Time{}
	if s.passing {
		s.least, s.taking = math.MaxInt64, req.Cost
	}
	if s.wake != nil {
		s.ends = s.until
	}
	for _, below := range [...]*spot{s.left, s.right} {
		if below == nil {
			continue
		}
		s.least, s.taking = min(s.least, below.least), s.taking+below.taking
		if s.ends.IsZero() || !below.ends.IsZero() && below.ends.Before(s.ends) {
			s.ends = below.ends
		}
	}
}

// first returns the first of those who have to wait and leave less than that; nil if there is none.
func (q *turnQueue) first(leaves int64) *spot {
	s := q.root
	if s == nil || s.least >= leaves {
		return nil
	}
	for {
		*q.steps++
		switch {
		case s.left != nil && s.left.least < leaves:
			s = s.left
		case !s.passing && s.reqs[s.at].Leave < leaves:
			return s
		default:
			s = s.right
		}
	}
}

// takenBefore returns the cost of those who pass and came before s.
func (q *turnQueue) takenBefore(s *spot) (cost int64) {
	for from := q.root; from != nil; {
		*q.steps++
		if from.order() >= s.order() {
			from = from.left
			continue
		}
		if from.left != nil {
			cost += from.left.taking
		}
		if from.passing {
			cost += from.reqs[from.at].Cost
		}
		from = from.right
	}
	return cost
}

// ahead returns the first in q who arrived before p, leaves no more than p's request i, and has not had its turn. Who
// leaves more gets its units later, so p does not wait for it.
func (q *turnQueue) ahead(p *place, i int) *place {
	if first := q.first(p.reqs[i].Leave + 1); first != nil && first.number < p.number {
		return first.place
	}
	return nil
}
