package loadgen

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Scenario is a pattern of load that shows what a limit or a limiter does wrong. What it
// sends depends on the limit that it is tried on.
type Scenario struct {
	Name string
	// About describes it in a few words.
	About string
	// Subjects is how many subjects it has by default, and LeastSubjects is how many it
	// needs.
	Subjects, LeastSubjects int
	// times says how many requests each subject sends at once, as a multiple of what the
	// limit allows at once. It is 0 if a subject sends one after the other.
	times    int64
	load     func(s Setting) Load
	duration func(s Setting) time.Duration
}

// Setting is what the requests of a scenario depend on.
type Setting struct {
	Limit    store.Limit // normalized
	Subjects int
	// ToEdge is how long after the beginning the next period begins by the store's
	// clock: the next whole number of periods since the epoch.
	ToEdge time.Duration
	// Duration is how long it goes on.
	Duration time.Duration
	// Costs are what the requests cost; 1 each if it is zero. A scenario that sends as much as a
	// limit allows sends fewer requests if they cost more. Seed makes them repeatable.
	Costs Costs
	Seed  uint64
}

// meanCost is what a request costs on average.
func (s *Setting) meanCost() float64 { return max(1, float64(s.Costs.Least+s.Costs.Most)/2) }

// requests returns how many requests ask for that many times what the limit allows at once.
func (s *Setting) requests(times int64) int64 {
	return int64(math.Ceil(float64(times*s.Limit.Capacity()) / s.meanCost()))
}

// perSecond is the limit's rate for one subject.
func (s *Setting) perSecond() float64 { return float64(s.Limit.Count) / s.Limit.Period.Seconds() }

// length is how long a scenario without an end of its own goes on: two periods, but at
// least 10 seconds and at most a minute.
func (s *Setting) length() time.Duration {
	return min(max(2*s.Limit.Period, 10*time.Second), time.Minute)
}

// Parts of the limit's rate that scenarios send at.
const (
	steadyRate    = 2.0
	noisyRate     = 50.0
	neighbourRate = 0.5
	dripRate      = 0.9
)

// Scenarios returns all there are.
func Scenarios() []Scenario {
	length := func(s Setting) time.Duration { return s.length() }
	return []Scenario{
		{"boundary", "a full burst just before and just after a window's edge", 1, 1, 1, boundary, func(s Setting) time.Duration {
			lead, gap := s.aroundEdge()
			return s.firstEdge() + gap + lead
		}},
		{"idle-burst", "twice what the limit allows at once, and again after being idle for longer than it takes to be free", 1, 1, 2,
			idleBurst, func(s Setting) time.Duration { return s.idleTime() + s.Limit.Period/10 }},
		{"thundering-herd", "everyone at once, with twice what the limit allows, and again each period", 10, 1, 2, thunderingHerd, length},
		{"steady", "everyone evenly, at twice the limit's rate", 10, 1, 0, func(s Setting) Load {
			return s.evenly(func(int) float64 { return steadyRate })
		}, length},
		{NoisyNeighbour, "one at 50 times the limit's rate, the others at half of it", 10, 2, 0, func(s Setting) Load {
			return s.evenly(func(subject int) float64 {
				if subject == NoisySubject {
					return noisyRate
				}
				return neighbourRate
			})
		}, length},
		{"slow-drip", "everyone evenly, at nine tenths of the limit's rate", 10, 1, 0, func(s Setting) Load {
			return s.evenly(func(int) float64 { return dripRate })
		}, length},
	}
}

// NoisyNeighbour is the name of the scenario in which one subject asks for far more than
// the others, and NoisySubject is that subject.
const (
	NoisyNeighbour = "noisy-neighbour"
	NoisySubject   = 0
)

// ParseScenario finds a scenario by name. The error is a [store.ErrInvalid] that
// lists them.
func ParseScenario(name string) (Scenario, error) {
	all := Scenarios()
	names := make([]string, len(all))
	for i := range all {
		if all[i].Name == name {
			return all[i], nil
		}
		names[i] = all[i].Name
	}
	return Scenario{}, store.Invalidf("unknown scenario %q; it is one of %s", name, strings.Join(names, ", "))
}

// Length returns how long the scenario goes on by default.
func (s *Scenario) Length(setting Setting) time.Duration { return s.duration(setting) }

// AtOnce returns how many requests at most the scenario sends at the same instant.
func (s *Scenario) AtOnce(setting Setting) int64 {
	return setting.requests(s.times) * int64(setting.Subjects)
}

// Load returns the scenario's requests. There are none if the setting's Duration ends before the
// first.
func (s *Scenario) Load(setting Setting) Load {
	load := s.load(setting)
	if setting.Costs.Most <= 1 {
		return load
	}
	return &costing{load, setting.Costs, newRandom(setting.Seed, streamCosts)}
}

// costing is a Load at other costs than 1.
type costing struct {
	Load
	costs  Costs
	random *rand.Rand
}

// Next implements [Load].
func (c *costing) Next() (Arrival, bool) {
	a, ok := c.Load.Next()
	a.Cost = c.costs.choose(c.random)
	return a, ok
}

// volley is requests at one instant.
type volley struct {
	due   time.Duration
	times int // that each subject asks
}

// listed is a Load whose times are known in advance.
type listed struct {
	volleys  []volley
	subjects int
	i        int // of the first volley
}

// Next has the subjects of a volley ask by turns.
func (l *listed) Next() (Arrival, bool) {
	if len(l.volleys) == 0 {
		return Arrival{}, false
	}
	first := l.volleys[0]
	a := Arrival{Due: first.due, Subject: uint32(l.i % l.subjects), Cost: 1}
	if l.i++; l.i == first.times*l.subjects {
		l.volleys, l.i = l.volleys[1:], 0
	}
	return a, true
}

// aroundEdge returns how long before a window's edge one burst begins, and how long after
// the edge the other one begins. The first is long enough for all of the burst to be
// decided before the edge. The second is long enough that a small error of the clock does
// not put the burst before the edge. Both bursts still lie within one period.
func (s *Setting) aroundEdge() (lead, gap time.Duration) {
	const absorbedPerSecond = 20_000 // what a slow store decides
	burst := time.Duration(float64(s.Limit.Capacity()*int64(s.Subjects)) / absorbedPerSecond * float64(time.Second))
	lead = min(s.Limit.Period/4, max(burst, min(s.Limit.Period/10, 200*time.Millisecond)))
	return lead, lead / 4
}

// firstEdge is the time of the first edge that leaves time for a burst before it.
func (s *Setting) firstEdge() time.Duration {
	lead, gap := s.aroundEdge()
	edge := s.ToEdge
	for edge < lead+gap {
		edge += s.Limit.Period
	}
	return edge
}

// A window whose edge is off by a little is right about bursts that are far enough from it. So
// some requests come close to the edge, on both sides: one of each subject every stepAtEdge.
const (
	closeToEdge = 2 * time.Millisecond
	stepAtEdge  = 100 * time.Microsecond
)

func boundary(s Setting) Load {
	lead, gap := s.aroundEdge()
	burst := int(s.requests(1))
	l := &listed{subjects: s.Subjects}
	for edge := s.firstEdge(); edge+gap < s.Duration; edge += s.Limit.Period {
		l.volleys = append(l.volleys, volley{edge - lead, burst})
		for near := -closeToEdge; near <= closeToEdge && gap > 2*closeToEdge; near += stepAtEdge {
			l.volleys = append(l.volleys, volley{edge + near, 1})
		}
		l.volleys = append(l.volleys, volley{edge + gap, burst})
	}
	// Where a period is shorter than a burst takes, the bursts of several edges overlap.
	slices.SortStableFunc(l.volleys, func(a, b volley) int { return cmp.Compare(a.due, b.due) })
	return l
}

func thunderingHerd(s Setting) Load { return s.every(s.Limit.Period) }

// idleTime is how long a key is idle between two bursts: until it is free again, and then for one
// and a half periods, in which a limiter that forgets its burst saves up more.
func (s *Setting) idleTime() time.Duration {
	free := float64(s.Limit.Capacity()) / s.perSecond() * float64(time.Second)
	return time.Duration(free) + s.Limit.Period*3/2
}

func idleBurst(s Setting) Load { return s.every(s.idleTime()) }

// every sends twice what the limit allows at once, by each subject, again and again.
func (s *Setting) every(gap time.Duration) Load {
	l := &listed{subjects: s.Subjects}
	for due := time.Duration(0); due < s.Duration; due += gap {
		l.volleys = append(l.volleys, volley{due, int(s.requests(2))})
	}
	return l
}

// evenly has each subject ask at even distances, at a multiple of the limit's rate. The
// subjects do not all ask at the same time.
func (s *Setting) evenly(rate func(subject int) float64) Load {
	turns := &turns{until: s.Duration}
	for subject := range s.Subjects {
		gap := float64(time.Second) * s.meanCost() / (rate(subject) * s.perSecond())
		turns.all = append(turns.all, turn{gap: gap, phase: gap * float64(subject) / float64(s.Subjects), subject: uint32(subject)})
	}
	heap.Init(turns)
	return turns
}

// turns is a Load of subjects that each ask evenly: a heap of who is next.
type turns struct {
	all   []turn
	until time.Duration
}

type turn struct {
	gap, phase float64 // nanoseconds
	n          float64
	subject    uint32
}

func (t *turn) due() float64 { return t.phase + t.n*t.gap }

func (t *turns) Next() (Arrival, bool) {
	first := &t.all[0]
	a := Arrival{Due: time.Duration(first.due()), Subject: first.subject, Cost: 1}
	first.n++
	heap.Fix(t, 0)
	return a, a.Due < t.until
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (t *turns) Len() int           { return len(t.all) }
func (t *turns) Less(i, j int) bool { return t.all[i].due() < t.all[j].due() }
func (t *turns) Swap(i, j int)      { t.all[i], t.all[j] = t.all[j], t.all[i] }
func (t *turns) Push(any)           {}
func (t *turns) Pop() any           { return nil }
