package layers

import (
	"container/list"
	"context"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// place is one caller's. Fields below the lock's line belong to the lock of turns.
type place struct {
	number uint64          // the order of arrival
	reqs   []store.Request // with their defaults set
	until  time.Time       // when its patience ends; zero for never

	held []*list.Element // in the queue of each request's key; nil where it holds no place
	// since is when it began to wait; zero if it does not.
	since time.Time
	// fits is when each request will fit, as far as that is known.
	fits []time.Time
	// passing: its turn has come, together with that of others; nobody waits behind it.
	passing bool
	// wake ends its wait behind others; nil while it does not wait behind anybody.
	wake context.CancelFunc
}

// stir ends p's wait behind others.
func (p *place) stir() {
	if p.wake != nil {
		p.wake()
		p.wake = nil
	}
}

// notBefore returns when all of p's requests will fit, as far as that is known.
func (p *place) notBefore() (latest time.Time) {
	for _, at := range p.fits {
		if at.After(latest) {
			latest = at
		}
	}
	return latest
}

// ahead returns the first in q who arrived before p and has not had its turn.
func (q *turnQueue) ahead(p *place) *place {
	for e := q.places.Front(); e != nil; e = e.Next() {
		other := e.Value.(*place)
		if other.number >= p.number {
			return nil
		}
		if !other.passing {
			return other
		}
	}
	return nil
}

// blocked returns the key at which p waits longest for somebody before it, and who that
// is; nil if it has its turn. What a shadow limits keeps nobody waiting.
func (t *turns) blocked(p *place) (at int, ahead *place) {
	for i := range p.reqs {
		q := t.queues[p.reqs[i].Key]
		if q == nil || p.reqs[i].Shadow {
			continue
		}
		if other := q.ahead(p); other != nil && (ahead == nil || other.notBefore().After(ahead.notBefore())) {
			at, ahead = i, other
		}
	}
	return at, ahead
}

// hold gives p a place at the key of its i-th request, where it will wait for wait. It
// gives up those places at other keys that nobody may be kept waiting at for so long.
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
		q = new(turnQueue)
		t.queues[key] = q
	}
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

// remove takes p out of the queue of its i-th key, and reports whether it was there.
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

// drop takes p out of all queues, and returns in which ones it was.
func (t *turns) drop(p *place) (held []bool) {
	held = make([]bool, len(p.held))
	for i := range p.held {
		held[i] = t.remove(p, i)
	}
	return held
}

// next gives whoever is first now at the i-th key of p, who has left it, its turn.
func (t *turns) next(p *place, i int) {
	q := t.queues[p.reqs[i].Key]
	if q == nil {
		return
	}
	for e := q.places.Front(); e != nil; e = e.Next() {
		first := e.Value.(*place)
		if first.passing {
			continue
		}
		for j := range first.reqs {
			// What p was told is true of whoever asks for the same or more.
			if fitsNoSooner(&first.reqs[j], &p.reqs[i]) && p.fits[i].After(first.fits[j]) {
				first.fits[j] = p.fits[i]
			}
		}
		first.stir()
		return
	}
}

// pass gives all those their turn for whom there is room after req was decided, and
// wakes the first for whom there is not, to wait until there is.
func (t *turns) pass(q *turnQueue, req *store.Request, d *store.Decision, now time.Time) {
	room := d.Remaining
	for e := q.places.Front(); e != nil; e = e.Next() {
		p := e.Value.(*place)
		i := p.request(req.Key)
		cost := p.reqs[i].Cost
		if p.passing {
			room -= cost
			continue
		}
		if p.wake == nil {
			return // it is the first already
		}
		p.stir()
		if _, ahead := t.blocked(p); ahead != nil {
			return // it goes on waiting, at another key
		}
		if cost > room {
			if wait, known := fitsNext(d, req, &p.reqs[i]); known && now.Add(wait).After(p.fits[i]) {
				p.fits[i] = now.Add(wait)
			}
			return
		}
		p.passing = true
		room -= cost
	}
}

// request returns which of p's requests is for key.
func (p *place) request(key store.Key) int {
	for i := range p.reqs {
		if p.reqs[i].Key == key {
			return i
		}
	}
	return -1
}

// fitsNoSooner reports whether req fits no sooner than other.
func fitsNoSooner(req, other *store.Request) bool {
	return req.Key == other.Key && req.Limit == other.Limit && req.Cost >= other.Cost
}

// fitsNext returns how long after d, which granted req, there is room for next, if d tells
// that.
func fitsNext(d *store.Decision, req, next *store.Request) (wait time.Duration, known bool) {
	limit := &req.Limit
	room := limit.Capacity() - next.Cost
	if room < 0 || *limit != next.Limit || d.DecidedBy != store.DecidedByStore || d.Used+d.Remaining != limit.Capacity() {
		return 0, false // the last two: somebody decided by something other than this limit
	}
	before, known := limit.FadesBy(room)
	return max(0, d.ResetAfter-before), known
}
