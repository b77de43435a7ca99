package interval

import "github.com/limitctl/limitctl/pkg/limiter"

// groupID tells groups apart.
type groupID struct {
	kind   limiter.Kind
	period limiter.Instant
}

// group is the keys whose windows have the same phase. Of limits without windows that are
// aligned to the epoch it has a single phase.
type group struct {
	phases []*phase
	limits []*limiter.Limit
	keys   []*account
}

// phase is a range of where windows can begin, from the epoch and modulo their period, and
// what is wrong if they do.
type phase struct {
	from, to limiter.Instant
	totals   totals
}

// totals is what is wrong under a phase, in all keys of a group.
type totals struct {
	over                           int64 // units
	underFree, underCharged, least int64
}

// under returns the units that were denied wrongly.
func (t *totals) under(*group) int64 { return t.underFree }

func (a *Auditor) group(limit *limiter.Limit) *group {
	id := groupID{limit.Kind(), periodOf(limit)}
	g := a.groups[id]
	if g == nil {
		g = &group{phases: []*phase{{}}}
		a.groups[id] = g
	}
	return g
}

func (g *group) newAccount(limit *limiter.Limit) *account {
	k := &account{limit: limit, group: g}
	for range g.phases {
		k.models = append(k.models, &model{limit: limit})
	}
	g.keys = append(g.keys, k)
	return k
}

// denied takes notice of a denial.
func (g *group) denied(*event) {}

// narrow drops phases that cannot be.
func (g *group) narrow() {}

// best returns the phase under which least is wrong.
func (g *group) best() *phase { return g.phases[0] }
