package interval

import (
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// phase is a range of where windows can begin, counted from the epoch and modulo their width, and
// what is wrong if they do begin there. Within a phase the instant of a decision, counted from a
// window's beginning, is less exact by the length of the range.
type phase struct {
	from, to store.Instant
	// since is the beginning of the first window, by a clock whose windows begin at the epoch. Nothing was decided before
	// it. It is 0 if it is not known.
	since  store.Instant
	totals totals
	liar   *Reported // of the last answer that reported something wrong
}

// interval returns when a request was decided, by a clock whose windows begin at the epoch.
func (p *phase) interval(lo, hi store.Instant) (from, to store.Instant) {
	from, to = lo-p.to, hi-p.from
	if p.since != 0 {
		from, to = max(from, p.since), max(to, p.since)
	}
	return from, to
}

const (
	// maxPhases is how many phases are followed at once.
	maxPhases = 16
	// maxModels is how many models of keys, of all phases. It bounds the memory.
	maxModels = 1 << 18
)

// phases divides a range of phases into at most so many.
func phases(from, length store.Instant, most int) (all []*phase) {
	count := max(1, min(store.Instant(most), length))
	for i := range count {
		all = append(all, &phase{from: from + length*i/count, to: from + length*(i+1)/count})
	}
	return all
}

// widen widens a phase by how far it can move in a time, if its clock runs fast or slow. A phase that is
// known to lie within a skew stays there.
func (g *group) widen(p *phase, during store.Instant) {
	p.from, p.to = max(p.from-during/drift, g.from), min(p.to+during/drift, g.to)
}

// follow widens the phases before a request of an instant is judged, if they were widened for a time that is nearly over.
func (g *group) follow(now store.Instant) {
	since := now - g.followed
	if since < periodOf(g.limit) || !aligned(g.limit) {
		return
	}
	for _, p := range g.phases {
		g.widen(p, since)
	}
	g.followed = now
}

// ahead is for how long a phase is widened when it is made: until it is widened again.
func (g *group) ahead() store.Instant { return 2 * periodOf(g.limit) }

// narrow drops the phases that explain much less than another one. Then it cuts those that are left
// in two, as far as there is room. It does so once in a period, since the beginning of a window,
// which tells most, is seen that often: until then a wrong phase may look better than the right
// one of a limiter that makes mistakes.
func (g *group) narrow(now store.Instant) {
	if len(g.phases) == 1 && g.phases[0].to == g.phases[0].from {
		return
	}
	if g.narrowed == 0 {
		g.narrowed = now
	}
	if now-g.narrowed < periodOf(g.limit) {
		return
	}
	g.narrowed = now
	least := g.wrong(g.phases[0])
	for _, p := range g.phases[1:] {
		least = min(least, g.wrong(p))
	}
	var keep []int
	for i, p := range g.phases {
		if g.wrong(p) <= fewWrong+4*least {
			keep = append(keep, i)
		}
	}
	if len(keep) < len(g.phases) {
		g.keep(keep)
	}
	for len(g.phases)*2 <= g.most && g.cut() {
	}
}

// fewWrong is how many units may be wrong under a phase before it is dropped. A server that makes mistakes has as many under
// the true phase while, by chance, another one explains more: of 19,000 random servers 5 lost their true phase with 3
// units, and none with 8.
const fewWrong = 8

// keep drops the other phases.
func (g *group) keep(indexes []int) {
	phases := make([]*phase, len(indexes))
	for n, i := range indexes {
		phases[n] = g.phases[i]
	}
	g.phases = phases
	for _, k := range g.keys {
		models := make([]*model, len(indexes))
		for n, i := range indexes {
			models[n] = k.models[i]
		}
		k.models = models
	}
}

// cut cuts each phase in two. What a model holds at least and at most under a phase it also does
// under a part of it. cut reports whether that made them finer.
func (g *group) cut() bool {
	if p := g.phases[0]; p.to-p.from <= max(g.finest, 4*g.ahead()/drift) {
		return false
	}
	var phases []*phase
	for _, p := range g.phases {
		middle := p.from + (p.to-p.from)/2
		first, second := *p, *p
		first.to, second.from = middle, middle
		g.widen(&first, g.ahead())
		g.widen(&second, g.ahead())
		phases = append(phases, &first, &second)
	}
	g.phases = phases
	for _, k := range g.keys {
		var models []*model
		for _, m := range k.models {
			models = append(models, m, m.clone())
		}
		k.models = models
	}
	return true
}
