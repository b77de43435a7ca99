package interval

import (
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// groupID tells groups apart.
type groupID struct {
	kind   store.Kind
	period store.Instant
	slices int64
}

// group is the keys whose windows begin together. Of limits whose windows are not aligned to
// the epoch it has a single phase.
type group struct {
	limit    *store.Limit // of one of its keys
	phases   []*phase
	keys     []*account
	most     int // phases that are followed at once
	finest   store.Instant
	from, to store.Instant // between which phases stay
	// narrowed is when the phases were looked through.
	narrowed store.Instant
	// deniedFree says that denied requests cannot all have been charged.
	deniedFree bool
}

func (a *Auditor) group(limit *store.Limit) *group {
	id := groupID{limit.Kind(), periodOf(limit), limit.Slices}
	g := a.groupOf[id]
	if g == nil {
		width := periodOf(limit) / store.Instant(max(1, limit.Slices))
		g = &group{limit: limit, finest: max(a.resolution, width/4096, 1)}
		g.most = min(maxPhases, max(2, maxModels/max(1, len(a.keys))))
		g.phases = a.phases(limit, width, g.most)
		if g.from, g.to = -a.skew, a.skew; a.skew < 0 || !aligned(limit) {
			g.from, g.to = -maxInstant, maxInstant
		}
		for _, p := range g.phases {
			if aligned(limit) {
				g.widen(p, g.ahead())
			}
		}
		a.groupOf[id], a.groups = g, append(a.groups, g)
	}
	return g
}

func (g *group) newAccount(limit *store.Limit) *account {
	k := &account{limit: fastest(limit), group: g}
	k.countsDenials = limit.Algorithm == store.SlidingLog || limit.Algorithm == store.SlidingCounter
	if len(g.keys) < ratedKeys {
		k.rates = newRates(limit)
	}
	for range g.phases {
		k.models = append(k.models, newModel(limit))
	}
	g.keys = append(g.keys, k)
	return k
}

// chargesDenied reports whether all that was denied had a reason, if denied requests are charged.
func (g *group) chargesDenied(t *totals) bool {
	return t.underFree > 0 && t.underCharged == 0 && !g.deniedFree && !g.limit.Algorithm.HasBurst()
}

// best returns the index of the phase that explains most: one under which all mistakes are of one
// kind, as most limiters make only one, and of those the one under which they are fewest.
func (g *group) best() int {
	best := 0
	for i, p := range g.phases {
		b := g.phases[best]
		mixed, leastMixed := min(p.totals.over, g.under(p)), min(b.totals.over, g.under(b))
		if mixed < leastMixed || mixed == leastMixed && g.wrong(p) < g.wrong(b) {
			best = i
		}
	}
	return best
}

// wrong returns how many units were wrong under a phase, at least.
func (g *group) wrong(p *phase) int64 { return p.totals.over + g.under(p) }

// under returns how many of them were denied.
func (g *group) under(p *phase) int64 {
	if g.chargesDenied(&p.totals) {
		return 0
	}
	return p.totals.leastUnder
}
