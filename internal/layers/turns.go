package layers

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// turns has the queues of callers for each key, in the order of arrival. A key without a queue takes no memory. The
// zero turns is ready for use.
//
// A caller holds places at keys. A later caller that needs such a key and leaves as much there, or more, waits behind it
// and does not call the store.
// A caller holds a place only at the key that makes it wait longest, so that a wait for one key does not block
// callers of another key of the same call. It keeps earlier places as long as the new wait is no longer than its
// whole wait so far: then nobody takes the units of one key while it waits for the other, and calls with several
// limits get their turn, too.
//
// Nobody waits for a later caller, so there is no deadlock.
type turns struct {
	arrived atomic.Uint64 // the number of requests so far
	mu      sync.Mutex
	queues  map[store.Key]*turnQueue
	steps   int // of the work in the queues, for tests
}

// arrive gives a caller its number. It holds no place yet.
func (t *turns) arrive(reqs []store.Request, until time.Time) *place {
	n := uint64(len(reqs))
	p := &place{number: t.arrived.Add(n) - n, reqs: make([]store.Request, n), until: until}
	copy(p.reqs, reqs)
	for i := range p.reqs {
		p.reqs[i].SetDefaults() // which set the name of the key
	}
	p.held, p.fits = make([]*spot, n), make([]time.Time, n)
	return p
}

// look decides what p does next. If behind is not nil, p sleeps until behind ends, since another caller is before
// it. Otherwise it calls the store after wait. If denial is not nil, its turn will not come before its wait
// must end; with over, that time has come.
func (t *turns) look(ctx context.Context, p *place, now time.Time, over bool) (
	behind context.Context, wait time.Duration, denial []store.Decision,
) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.stir()
	at, ahead := t.blocked(p)
	switch {
	case p.passing:
		return nil, 0, nil
	case ahead == nil:
		return nil, p.notBefore().Sub(now), nil
	}
	if over || t.tooLate(p) {
		return nil, 0, t.denial(p, now)
	}
	t.hold(p, at, ahead.notBefore().Sub(now), now)
	behind, p.wake = context.WithCancel(ctx)
	t.renew(p)
	return behind, 0, nil
}

// denied handles a denial of p. If holds, p holds a place from now on.
func (t *turns) denied(p *place, decisions []store.Decision, now time.Time, holds bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setPassing(p, false)
	longest := -1
	for i := range decisions {
		d := &decisions[i]
		p.fits[i] = time.Time{}
		if d.Allowed || d.Shadow || d.Unguarded {
			continue
		}
		p.fits[i] = now.Add(d.RetryAfter)
		if longest < 0 || d.RetryAfter > decisions[longest].RetryAfter {
			longest = i
		}
	}
	if !holds || longest < 0 {
		return
	}
	t.hold(p, longest, decisions[longest].RetryAfter, now)
	for i, s := range p.held {
		if s == nil || p.fits[i].IsZero() {
			continue
		}
		q := t.queues[p.reqs[i].Key]
		q.answer, q.answered = decisions[i], now
		if q.ahead(p, i) == nil { // else nobody waits for p
			t.tell(q, q.root, p.fits[i])
		}
	}
}

// tell wakes those who sleep in q, from a spot down, and whose wait must end before a turn at that time.
func (t *turns) tell(q *turnQueue, from *spot, turn time.Time) {
	if from == nil || from.ends.IsZero() || !from.ends.Before(turn) {
		return
	}
	t.tell(q, from.left, turn)
	if from.wake != nil && from.until.Before(turn) && t.tooLate(from.place) {
		from.stir()
	}
	t.tell(q, from.right, turn)
	q.sum(from)
}

// granted handles an answer that let p through, and gives a turn to those for whom it left enough.
func (t *turns) granted(p *place, decisions []store.Decision, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.drop(p)
	for i := range p.reqs {
		if q := t.queues[p.reqs[i].Key]; q != nil && held[i] {
			t.pass(q, &p.reqs[i], &decisions[i], now)
		}
	}
}

// failed lets all callers behind p call the store, since nobody knows whose turn it is while the store is away.
func (t *turns) failed(p *place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(p)
	for i := range p.reqs {
		q := t.queues[p.reqs[i].Key]
		if q == nil || p.passing { // it was done already
			continue
		}
		for s := q.first(math.MaxInt64); s != nil; s = q.first(math.MaxInt64) {
			s.stir()
			t.setPassing(s.place, true)
		}
	}
}

// leave ends p's wait, whatever its result. The next in each of its queues gets its turn.
func (t *turns) leave(p *place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.stir()
	for i, held := range t.drop(p) {
		if held {
			t.next(p, i)
		}
	}
}

// tooLate reports whether p's turn certainly comes after its wait must end: there is not even room for an earlier
// caller with the same cost or less. It ignores the callers between the two, since each of them may leave.
func (t *turns) tooLate(p *place) bool {
	if p.until.IsZero() {
		return false
	}
	for i := range p.reqs {
		req := &p.reqs[i]
		_, ahead := t.ahead(p, req)
		if ahead == nil {
			continue
		}
		for j := range ahead.reqs {
			if fitsNoSooner(req, &ahead.reqs[j]) && ahead.fits[j].After(p.until) {
				return true
			}
		}
	}
	return false
}

// ahead returns the queue of a request of p, and the next caller before p in it, or nil.
func (t *turns) ahead(p *place, req *store.Request) (q *turnQueue, ahead *place) {
	if q = t.queues[req.Key]; q == nil || req.Shadow {
		return nil, nil
	}
	return q, q.ahead(p, p.request(req.Key))
}

// denial is the answer to p if its turn does not come in time. It has the store's last answers to callers of the
// same keys.
func (t *turns) denial(p *place, now time.Time) []store.Decision {
	decisions := make([]store.Decision, len(p.reqs))
	for i := range decisions {
		req, d := &p.reqs[i], &decisions[i]
		*d = store.Decision{Allowed: true, Shadow: req.Shadow, Unguarded: true} // no limit was applied
		q, ahead := t.ahead(p, req)
		if ahead == nil {
			continue
		}
		passed := now.Sub(q.answered).Truncate(time.Microsecond)
		*d = q.answer
		d.At += store.Instant(passed.Microseconds())
		under := *req
		under.SetLimit(d.Override.Apply(req.Limit))
		d.Remaining = max(0, under.Capacity()-d.Used)
		d.RetryAfter = max(time.Microsecond, ahead.notBefore().Sub(now).Truncate(time.Microsecond))
		d.ResetAfter = max(d.RetryAfter, d.ResetAfter-passed)
	}
	return decisions
}
