package interval

import (
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

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

// popLast drops the newest.
func (q *queue[T]) popLast() { q.list = q.list[:len(q.list)-1] }

func (q *queue[T]) clone() queue[T] { return queue[T]{list: slices.Clone(q.list[q.head:])} }

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
