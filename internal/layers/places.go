package layers

import (
	"context"
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// place is one caller in the queues. The fields below the blank line are guarded by the lock of turns.
type place struct {
	number uint64          // in the order of arrival: how many requests came before
	reqs   []store.Request // with their defaults set
	until  time.Time       // when its wait must end; zero for never

	held []*spot // in the queue of each request's key; nil where it holds no place
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
		q = &turnQueue{steps: &t.steps}
		t.queues[key] = q
	}
	p.held[i] = q.add(p, i)
}

// remove removes p from the queue of key i, and reports whether it was there.
func (t *turns) remove(p *place, i int) bool {
	if p.held[i] == nil {
		return false
	}
	key := p.reqs[i].Key
	q := t.queues[key]
	q.remove(p.held[i])
	p.held[i] = nil
	if q.root == nil {
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
	for first := q.first(math.MaxInt64); first != nil; first = q.first(first.reqs[first.at].Leave) {
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
	for p := q.first(least); p != nil; p = q.first(least) {
		next := &p.reqs[p.at]
		if p.wake == nil { // it is the first already
			least = next.Leave
			continue
		}
		p.stir()
		if _, ahead := t.blocked(p.place); ahead != nil {
			least = next.Leave // it still waits, at another key
			continue
		}
		if next.Cost > free-q.takenBefore(p)-next.Leave {
			if wait, known := fitsNext(d, req, next); known && now.Add(wait).After(p.fits[p.at]) {
				p.fits[p.at] = now.Add(wait)
			}
			least = next.Leave
			continue
		}
		t.setPassing(p.place, true)
	}
}

// setPassing says whether p has its turn, together with others.
func (t *turns) setPassing(p *place, passing bool) {
	if p.passing != passing {
		p.passing = passing
		t.renew(p)
	}
}

// renew is needed after a change of p.
func (t *turns) renew(p *place) {
	for i, s := range p.held {
		if s != nil {
			q := t.queues[p.reqs[i].Key]
			q.renew(q.root, s)
		}
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
