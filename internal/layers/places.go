package layers

import (
	"container/list"
	"context"
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// place is one caller in the queues. The fields below the blank line are guarded by the lock of turns.
type place struct {
	number uint64          // in the order of arrival
	reqs   []store.Request // with their defaults set
	until  time.Time       // when its wait must end; zero for never

	held []*list.Element // in the queue of each request's key; nil where it holds no place
	// since is the beginning of its wait; zero if it does not wait.
	since time.Time
	// fits is when each request will fit, as far as is known.
	fits []time.Time
	// passing: it has its turn, together with others; nobody waits behind it.
	passing bool
	// wake ends its wait behind others; nil if it does not wait behind anybody.
	wake context.CancelFunc
}

// stir ends p's wait behind others.
func (p *place) stir() {
	if p.wake != nil {
		p.wake()
		p.wake = nil
	}
}

// notBefore returns when all of p's requests will fit, as far as is known.
func (p *place) notBefore() (latest time.Time) {
	for _, at := range p.fits {
		if at.After(latest) {
			latest = at
		}
	}
	return latest
}

// ahead returns the first in q who arrived before p, leaves no more than p's request i, and has not had its turn. Who
// leaves more gets its units later, so p does not wait for it.
func (q *turnQueue) ahead(p *place, i int) *place {
	if q.least > p.reqs[i].Leave {
		return nil // all of them leave more
	}
	for e := q.places.Front(); e != nil; e = e.Next() {
		other := e.Value.(*place)
		if other.number >= p.number {
			return nil
		}
		if !other.passing && other.leaves(p.reqs[i].Key) <= p.reqs[i].Leave {
			return other
		}
	}
	return nil
}

// blocked returns the key at which p waits longest for an earlier caller, and that caller; nil if p has its turn.
// Nobody waits for a shadow limit.
func (t *turns) blocked(p *place) (at int, ahead *place) {
	for i := range p.reqs {
		q := t.queues[p.reqs[i].Key]
		if q == nil || p.reqs[i].Shadow {
			continue
		}
		if other := q.ahead(p, i); other != nil && (ahead == nil || other.notBefore().After(ahead.notBefore())) {
			at, ahead = i, other
		}
	}
	return at, ahead
}

// hold gives p a place at the key of request i, for a wait of wait. It gives up places at other keys if nobody may
// have to wait that long there.
func (t *turns) hold(p *place, i int, wait time.Duration, now time.Time) {
	if p.since.IsZero() {
		p.since = now
	}
	if wait > now.Sub(p.since) {
		for j := range p.held {
			if j != i && t.remove(p, j) {
				t.next(p, j)
			}
		}
	}
	if p.held[i] != nil {
		return
	}
	key := p.reqs[i].Key
	q := t.queues[key]
	if q == nil {
		if t.queues == nil {
			t.queues = make(map[store.Key]*turnQueue)
		}
		q = &turnQueue{least: math.MaxInt64}
		t.queues[key] = q
	}
	q.least = min(q.least, p.reqs[i].Leave)
	after := q.places.Back()
	for after != nil && after.Value.(*place).number > p.number {
		after = after.Prev()
	}
	if after == nil {
		p.held[i] = q.places.PushFront(p)
	} else {
		p.held[i] = q.places.InsertAfter(p, after)
	}
}

// remove removes p from the queue of key i, and reports whether it was there.
func (t *turns) remove(p *place, i int) bool {
	if p.held[i] == nil {
		return false
	}
	key := p.reqs[i].Key
	q := t.queues[key]
	q.places.Remove(p.held[i])
	p.held[i] = nil
	if q.places.Len() == 0 {
		delete(t.queues, key)
	}
	return true
}

// drop removes p from all queues, and returns in which ones it was.
func (t *turns) drop(p *place) (held []bool) {
	held = make([]bool, len(p.held))
	for i := range p.held {
		held[i] = t.remove(p, i)
	}
	return held
}

// next gives the turn at key i, which p has left, to the first in the queue, and to those who leave less than all
// before them.
func (t *turns) next(p *place, i int) {
	q := t.queues[p.reqs[i].Key]
	if q == nil {
		return
	}
	least := int64(math.MaxInt64)
	for e := q.places.Front(); e != nil && least > q.least; e = e.Next() {
		first := e.Value.(*place)
		if first.passing || first.leaves(p.reqs[i].Key) >= least {
			continue
		}
		least = first.leaves(p.reqs[i].Key)
		for j := range first.reqs {
			// The answer to p also holds for a request of the same cost or more.
			if fitsNoSooner(&first.reqs[j], &p.reqs[i]) && p.fits[i].After(first.fits[j]) {
				first.fits[j] = p.fits[i]
			}
		}
		first.stir()
	}
}

// pass gives a turn to all for whom there is room after the decision on req, and wakes the first for whom there is
// not, to wait until there is. Those behind it who leave less do not wait for it.
func (t *turns) pass(q *turnQueue, req *store.Request, d *store.Decision, now time.Time) {
	free := d.Remaining + req.Leave // for one who leaves nothing
	least := int64(math.MaxInt64)   // that anyone leaves who stays
	for e := q.places.Front(); e != nil && least > q.least; e = e.Next() {
		p := e.Value.(*place)
		i := p.request(req.Key)
		cost, leave := p.reqs[i].Cost, p.reqs[i].Leave
		switch {
		case p.passing:
			free -= cost
			continue
		case leave >= least:
			continue
		case p.wake == nil: // it is the first already
			least = leave
			continue
		}
		p.stir()
		if _, ahead := t.blocked(p); ahead != nil {
			least = leave // it still waits, at another key
			continue
		}
		if cost > free-leave {
			if wait, known := fitsNext(d, req, &p.reqs[i]); known && now.Add(wait).After(p.fits[i]) {
				p.fits[i] = now.Add(wait)
			}
			least = leave
			continue
		}
		p.passing = true
		free -= cost
	}
}

// request returns the index of p's request for key.
func (p *place) request(key store.Key) int {
	for i := range p.reqs {
		if p.reqs[i].Key == key {
			return i
		}
	}
	return -1
}

// leaves returns what p's request for key leaves.
func (p *place) leaves(key store.Key) int64 { return p.reqs[p.request(key)].Leave }

// fitsNoSooner reports whether req fits no sooner than other.
func fitsNoSooner(req, other *store.Request) bool {
	return req.Key == other.Key && req.Limit == other.Limit && req.Cost+req.Leave >= other.Cost+other.Leave
}

// fitsNext returns how long after d, which granted req, there is room for next, if d determines that.
func fitsNext(d *store.Decision, req, next *store.Request) (wait time.Duration, known bool) {
	limit := &req.Limit
	room := next.Capacity() - next.Cost
	if room < 0 || *limit != next.Limit || d.DecidedBy != store.DecidedByStore || d.Used+d.Remaining != req.Capacity() {
		return 0, false // the last two: it was not this limit that decided
	}
	before, known := limit.FadesBy(room)
	return max(0, d.ResetAfter-before), known
}
