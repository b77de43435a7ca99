package layers

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// turns is the law of waiting in order: those who wait for a key get their turns in the order of their arrival, except
// that nobody waits behind one who leaves more. Nobody waits for a later caller, so there is no deadlock.
//
// Who waits has a place at the key that makes him wait longest, and keeps his places at other keys while the new wait
// is no longer than his wait so far, so that calls with several limits get their turns, too.
type turns struct {
	mu      sync.Mutex
	arrived uint64 // callers so far
	lines   map[store.Key]*line
}

// line has the callers with a place at a key. It is gone when nobody has one.
type line struct {
	classes map[int64][]*spot // those who wait in the order of arrival, by what they leave
	taking  int64             // the cost of those who pass
}

// waiting is a caller who waits. Its fields below the blank line are guarded by the lock of turns.
type waiting struct {
	number  uint64          // in the order of arrival
	reqs    []store.Request // with their defaults set
	until   time.Time       // when the wait must end; zero for never
	wake    chan struct{}   // gets a value when it has to look again
	bounded bool            // see [Waiter].Bounded
	last    []store.Decision
	lastAt  time.Time // when last was the store's denial

	spots   []spot // one for each request
	since   time.Time
	asleep  bool // it waits behind others, until wake
	passing bool // it has its turn, together with others; nobody waits behind it
}

// spot is what a caller has to do with the key of one of its requests.
type spot struct {
	*waiting
	req  *store.Request
	fits time.Time // when the request will fit, as far as is known
	line *line     // where it has a place; nil if it has none
}

// arrive gives a caller its number. It has no place yet.
func (t *turns) arrive(reqs []store.Request, until time.Time) *waiting {
	p := &waiting{reqs: slices.Clone(reqs), until: until, wake: make(chan struct{}, 1), spots: make([]spot, len(reqs))}
	for i := range reqs {
		p.reqs[i].SetDefaults() // for the name of the key
		p.spots[i] = spot{waiting: p, req: &p.reqs[i]}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arrived++
	p.number = t.arrived
	return p
}

// look decides what p does next: it sleeps until p.wake behind others, calls the store after wait, or is denied, since
// its turn will not come before its wait must end; with over, that time has come.
func (t *turns) look(p *waiting, now time.Time, over bool) (behind bool, wait time.Duration, denial []store.Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.asleep = false
	at, ahead := t.blocked(p)
	switch {
	case p.passing:
		return false, 0, nil
	case ahead == nil:
		return false, p.notBefore().Sub(now), nil
	case over || t.tooLate(p) || t.hopeless(p):
		return false, 0, t.denial(p, now)
	}
	t.hold(p, at, ahead.notBefore().Sub(now), now)
	p.asleep = true
	return true, 0, nil
}

// denied handles a denial of p, and reports whether p waits on, with a place if the store is not away.
func (t *turns) denied(p *waiting, decisions []store.Decision, now time.Time, stays, away bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setPassing(p, false)
	longest := -1
	for i := range decisions {
		d := &decisions[i]
		p.spots[i].fits = time.Time{}
		if d.Allowed || d.Shadow || d.Unguarded {
			continue
		}
		p.spots[i].fits = now.Add(d.RetryAfter)
		if longest < 0 || d.RetryAfter > decisions[longest].RetryAfter {
			longest = i
		}
	}
	if stays = stays && !t.hopeless(p); stays && !away && longest >= 0 {
		t.hold(p, longest, decisions[longest].RetryAfter, now)
	}
	return stays
}

// leave ends p's wait. An answer that let it through gives a turn to those for whom it left enough; without one the
// next in each of its lines gets its turn.
func (t *turns) leave(p *waiting, decisions []store.Decision, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range p.spots {
		var d *store.Decision
		if decisions != nil {
			d = &decisions[i]
		}
		t.release(&p.spots[i], d, now)
	}
}

// failed lets all callers behind p call the store, since nobody knows whose turn it is while the store is away.
func (t *turns) failed(p *waiting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range p.spots {
		l := t.remove(&p.spots[i])
		if l == nil || p.passing { // it was done already
			continue
		}
		for s := t.first(l, math.MaxInt64); s != nil; s = t.first(l, math.MaxInt64) {
			s.rouse()
			t.setPassing(s.waiting, true)
		}
	}
}

// rouse ends p's sleep behind others, and reports whether it slept.
func (p *waiting) rouse() bool {
	slept := p.asleep
	if p.asleep = false; slept {
		select {
		case p.wake <- struct{}{}:
		default: // it is waking up anyway
		}
	}
	return slept
}

// notBefore returns when all of p's requests will fit, as far as is known.
func (p *waiting) notBefore() (latest time.Time) {
	for i := range p.spots {
		if at := p.spots[i].fits; at.After(latest) {
			latest = at
		}
	}
	return latest
}

// blocked returns the request for which p waits longest for an earlier caller, and that caller; nil if p has its turn.
func (t *turns) blocked(p *waiting) (at int, ahead *spot) {
	for i := range p.spots {
		if other := t.ahead(&p.spots[i]); other != nil && (ahead == nil || other.notBefore().After(ahead.notBefore())) {
			at, ahead = i, other
		}
	}
	return at, ahead
}

// ahead returns the first at the key of s who arrived before and leaves no more; nil if there is none.
func (t *turns) ahead(s *spot) *spot {
	if l := t.lines[s.req.Key]; l != nil && !s.req.Shadow {
		if first := t.first(l, s.req.Leave+1); first != nil && first.number < s.number {
			return first
		}
	}
	return nil
}

// first returns the first of those who wait and leave less than that; nil if there is none.
func (t *turns) first(l *line, leaves int64) (first *spot) {
	for leave, class := range l.classes {
		if s := class[0]; leave < leaves && (first == nil || s.number < first.number) {
			first = s
		}
	}
	return first
}

// tooLate reports whether p's turn certainly comes after its wait must end, whoever else leaves: there is not even room
// for an earlier caller with the same cost or less.
func (t *turns) tooLate(p *waiting) bool {
	return !p.until.IsZero() && slices.ContainsFunc(p.spots, func(s spot) bool {
		ahead := t.ahead(&s)
		return ahead != nil && fitsNoSooner(s.req, ahead.req) && p.until.Before(ahead.fits)
	})
}

// hopeless reports whether a bounded p without a place would wait in vain if all before it stay: their costs and its
// own do not come back in time.
func (t *turns) hopeless(p *waiting) bool {
	if !p.bounded || slices.ContainsFunc(p.spots, func(s spot) bool { return s.line != nil }) {
		return false
	}
	for i := range p.spots {
		s := &p.spots[i]
		first := t.ahead(s)
		if first == nil || first.fits.IsZero() || first.req.Limit != s.req.Limit {
			continue
		}
		units := s.req.Cost // that have to come back after the first one's
		for leave, class := range t.lines[s.req.Key].classes {
			for _, other := range class {
				if other != first && other.number < p.number && leave <= s.req.Leave {
					units += other.req.Cost
				}
			}
		}
		wait := time.Duration(min(100, (units+first.req.Cost-1)/s.req.Capacity())) * s.req.Limit.Period
		if s.req.Limit.Algorithm.HasBurst() {
			wait, _ = s.req.Limit.FadesBy(units)
		}
		if p.until.Before(first.fits.Add(wait)) {
			return true
		}
	}
	return false
}

// denial is the answer to p if its turn does not come in time. It says when to try again, and not what is in use.
func (t *turns) denial(p *waiting, now time.Time) []store.Decision {
	decisions := make([]store.Decision, len(p.spots))
	for i := range decisions {
		s, d := &p.spots[i], &decisions[i]
		*d = store.Decision{Allowed: true, Shadow: s.req.Shadow, Unguarded: true} // no limit was applied
		if ahead := t.ahead(s); ahead != nil {
			wait := max(time.Microsecond, ahead.notBefore().Sub(now).Truncate(time.Microsecond))
			*d = store.Decision{RetryAfter: wait, ResetAfter: wait}
		}
	}
	return decisions
}

// hold gives p a place at the key of request i, and gives up those at other keys if the wait is longer than that so
// far.
func (t *turns) hold(p *waiting, i int, wait time.Duration, now time.Time) {
	if p.since.IsZero() {
		p.since = now
	}
	if wait > now.Sub(p.since) {
		for j := range p.spots {
			if j != i {
				t.release(&p.spots[j], nil, now)
			}
		}
	}
	s := &p.spots[i]
	if s.line != nil {
		return
	}
	if s.line = t.lines[s.req.Key]; s.line == nil {
		if t.lines == nil {
			t.lines = make(map[store.Key]*line)
		}
		s.line = &line{classes: map[int64][]*spot{}}
		t.lines[s.req.Key] = s.line
	}
	s.queue()
}

// release takes the place of s away, and gives a turn to all there for whom d, which let s through, leaves room. The
// first for whom there is none waits until there is. If d is nil, s leaves, and the next gets its turn.
func (t *turns) release(s *spot, d *store.Decision, now time.Time) {
	l := t.remove(s)
	if l == nil {
		return
	}
	free := int64(-1) // for one who leaves nothing
	if d != nil {
		free = d.Remaining + s.req.Leave
	}
	least := int64(math.MaxInt64) // that anyone leaves who stays
	for next := t.first(l, least); next != nil; next = t.first(l, least) {
		slept := next.rouse()
		if _, ahead := t.blocked(next.waiting); slept && ahead == nil && next.req.Cost <= free-l.taking-next.req.Leave {
			t.setPassing(next.waiting, true)
			continue
		}
		var fits time.Time
		if d != nil {
			fits = fitsNext(d, s.req, next.req, now)
		} else if fitsNoSooner(next.req, s.req) {
			fits = s.fits
		}
		if fits.After(next.fits) {
			next.fits = fits
		}
		least = next.req.Leave
	}
}

// remove takes the place of s away, and returns the line; nil if it had none.
func (t *turns) remove(s *spot) *line {
	l := s.line
	if l == nil {
		return nil
	}
	if s.passing {
		l.taking -= s.req.Cost
	} else {
		s.unqueue()
	}
	s.line = nil
	if len(l.classes) == 0 && l.taking == 0 {
		delete(t.lines, s.req.Key)
	}
	return l
}

// setPassing says whether p has its turn, together with others. Then it keeps its places, but nobody waits behind it.
func (t *turns) setPassing(p *waiting, passing bool) {
	if p.passing == passing {
		return
	}
	p.passing = passing
	for i := range p.spots {
		switch s := &p.spots[i]; {
		case s.line == nil:
		case passing:
			s.unqueue()
			s.line.taking += s.req.Cost
		default:
			s.line.taking -= s.req.Cost
			s.queue()
		}
	}
}

// queue lets s wait at its place.
func (s *spot) queue() {
	class := s.line.classes[s.req.Leave]
	s.line.classes[s.req.Leave] = slices.Insert(class, s.in(class), s)
}

func (s *spot) unqueue() {
	class := s.line.classes[s.req.Leave]
	at := s.in(class)
	if class = slices.Delete(class, at, at+1); len(class) == 0 {
		delete(s.line.classes, s.req.Leave)
	} else {
		s.line.classes[s.req.Leave] = class
	}
}

// in returns where s belongs in a class.
func (s *spot) in(class []*spot) int {
	at, _ := slices.BinarySearchFunc(class, s, func(a, b *spot) int { return cmp.Compare(a.number, b.number) })
	return at
}

// fitsNoSooner reports whether req fits no sooner than other, a request for the same key.
func fitsNoSooner(req, other *store.Request) bool {
	return req.Limit == other.Limit && req.Cost+req.Leave >= other.Cost+other.Leave
}

// fitsNext returns when there is room for next after d, which granted req; zero if d does not determine that.
func fitsNext(d *store.Decision, req, next *store.Request, now time.Time) time.Time {
	room := next.Capacity() - next.Cost
	if room < 0 || req.Limit != next.Limit || d.DecidedBy != store.DecidedByStore ||
		d.Used+d.Remaining != req.Capacity() {
		return time.Time{} // the last two: it was not this limit that decided
	}
	before, known := req.Limit.FadesBy(room)
	if !known {
		return time.Time{}
	}
	return now.Add(max(0, d.ResetAfter-before))
}

// age makes a decision that is so old one of now.
func age(d *store.Decision, passed time.Duration) {
	passed = max(0, passed.Truncate(time.Microsecond))
	if !d.Allowed && d.RetryAfter > 0 {
		d.RetryAfter = max(time.Microsecond, d.RetryAfter-passed)
	}
	d.At, d.ResetAfter = d.At+store.Instant(passed/time.Microsecond), max(d.RetryAfter, d.ResetAfter-passed)
}
