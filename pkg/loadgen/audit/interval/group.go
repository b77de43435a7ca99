package interval

import (
	"cmp"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// groupID tells groups apart.
type groupID struct {
	kind   store.Kind
	period store.Instant
	slices int64
	phase  time.Duration
	key    uint32 // plus 1, of one whose windows begin with its first request
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
	// narrowed is when the phases were looked through, and followed until when their clock was taken to run.
	narrowed, followed store.Instant
	// deniedFree says that denied requests cannot all have been charged.
	deniedFree bool
	// apart: denials of one wait named instants that go up and down.
	apart bool
	// own: the group is one key, whose windows begin with its first request.
	own bool
	// before is what was found before the windows of the key began anew.
	before totals
}

// group returns the group of a key whose first request is e.
func (a *Auditor) group(limit *store.Limit, e *event) *group {
	id := groupID{kind: limit.Kind(), period: periodOf(limit), slices: limit.Slices, phase: limit.Phase}
	own := ownPhase(limit)
	if own {
		id.key = e.key + 1
	}
	g := a.groupOf[id]
	if g == nil {
		g = &group{limit: limit, finest: max(a.resolution, widthOf(limit)/4096, 1), own: own}
		g.from, g.to = -maxInstant, maxInstant
		if from, length, known := a.given(limit); known {
			g.from, g.to = from, from+length
		}
		a.begin(g, e, !a.usedBefore)
		a.groupOf[id], a.groups = g, append(a.groups, g)
	}
	return g
}

// begin gives a group the phases that there can be. Of a key with windows of its own e is the first request, at least
// if isFirst.
func (a *Auditor) begin(g *group, e *event, isFirst bool) {
	g.most = min(maxPhases, max(2, maxModels/max(1, len(a.keys))))
	g.followed = e.lo
	switch from, length, known := a.given(g.limit); {
	case !aligned(g.limit):
		g.phases = []*phase{{}}
		return
	case known:
		g.phases = phases(from, length, g.most)
	case g.own && isFirst && e.answer == Admitted && e.hi-e.lo < widthOf(g.limit):
		// Whatever was decided first was so by the time at which this request was.
		length := e.hi - e.lo
		if length < widthOf(g.limit)/tight {
			g.most = 1
		}
		into := e.lo % widthOf(g.limit)
		g.phases = phases(into, length, g.most)
		for _, p := range g.phases {
			p.since = e.lo - into
		}
	default:
		g.phases = phases(0, widthOf(g.limit), g.most)
	}
	for _, p := range g.phases {
		g.widen(p, g.ahead())
	}
}

// tight is the part of its width that a phase may be unsure by and is not divided.
const tight = 64

// given returns between which instants the phase of windows must lie, if that is known before.
func (a *Auditor) given(limit *store.Limit) (from, length store.Instant, known bool) {
	skew := max(0, a.skew)
	switch {
	case !aligned(limit) || ownPhase(limit) || limit.Phase == 0 && a.skew < 0:
		return 0, 0, false
	case limit.Phase != 0:
		skew += max(a.resolution, microseconds(limit.PhaseWithin()))
	}
	from, length = microseconds(limit.Phase)-skew, 2*skew
	return from, length, length < widthOf(limit)
}

// totals returns what was found under the best phase, and at least under any.
func (g *group) totals() totals {
	best := g.phases[g.best()]
	t := best.totals
	t.leastOver, t.leastUnder = g.least(best)
	if g.own {
		t.add(&g.before)
	}
	return t
}

func (g *group) newAccount(limit *store.Limit) *account {
	limit = counted(limit)
	k := &account{limit: fastest(limit), group: g}
	k.countsDenials = limit.Algorithm == store.SlidingLog || limit.Algorithm == store.SlidingCounter
	if k.rated = len(g.keys) < ratedKeys; k.rated {
		k.rates = newRates(limit)
	}
	k.models = g.models(limit)
	g.keys = append(g.keys, k)
	return k
}

// models returns models of a key of which nothing is known yet.
func (g *group) models(limit *store.Limit) (models []*model) {
	for range g.phases {
		models = append(models, newModel(limit, g.limit.FromFirst))
	}
	return models
}

// chargesDenied reports whether all that was denied had a reason, if denied requests are charged.
func (g *group) chargesDenied(t *totals) bool {
	return t.underFree > 0 && t.underCharged == 0 && !g.deniedFree && !g.limit.Algorithm.HasBurst()
}

// best returns the index of the phase that explains most: one under which all mistakes are of one
// kind, as most limiters make only one, and of those the one under which they are fewest, then the one under which
// the fewest answers reported something wrong. Then it is the one that needs fewest denied requests to be charged: that
// they are may turn out to be false when the windows of a key have begun anew, and the other phases are forgotten.
func (g *group) best() int {
	best := 0
	for i, p := range g.phases {
		b := g.phases[best]
		mixed, leastMixed := min(p.totals.over, g.under(p)), min(b.totals.over, g.under(b))
		if cmp.Or(cmp.Compare(mixed, leastMixed), cmp.Compare(g.wrong(p), g.wrong(b)),
			cmp.Compare(p.totals.lied, b.totals.lied), cmp.Compare(p.totals.late.Answers, b.totals.late.Answers),
			cmp.Compare(p.totals.underFree, b.totals.underFree)) < 0 {
			best = i
		}
	}
	return best
}

// least returns how many units at least were too many, and were denied wrongly, whichever of the phases is the true one.
// Where each phase leaves only mistakes of one kind, but not all of the same, so many were wrong that no phase leaves
// fewer; they are then said to be of the kind that the best phase has.
func (g *group) least(best *phase) (over, under int64) {
	over, under = best.totals.over, best.totals.leastUnder
	wrong := g.wrong(best)
	for _, p := range g.phases {
		over, under, wrong = min(over, p.totals.over), min(under, p.totals.leastUnder), min(wrong, g.wrong(p))
	}
	if over == 0 && under == 0 {
		over = min(best.totals.over, wrong)
		under = min(best.totals.leastUnder, wrong-over)
	}
	return over, under
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
