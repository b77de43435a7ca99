package loadgen

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Scenario is a pattern of load that shows faults of a limit or a limiter. Its requests depend on the limit.
type Scenario struct {
	Name string
	// About describes it in a few words.
	About string
	// Subjects is the default number of subjects, and LeastSubjects the smallest.
	Subjects, LeastSubjects int
	// times is how many requests each subject sends at once, as a multiple of what the limit allows at once. It is
	// 0 if a subject sends one after the other.
	times    int64
	load     func(s Setting) Load
	duration func(s Setting) time.Duration
}

// Setting is what determines the requests of a scenario.
type Setting struct {
	Limit    store.Limit // normalized
	Subjects int
	// ToEdge is the time from the beginning to the next edge of a period by the store's clock: the next whole
	// number of periods since the epoch.
	ToEdge time.Duration
	// Duration is the length of the scenario.
	Duration time.Duration
}

// requests returns the number of requests that are times as much as the limit allows at once.
func (s *Setting) requests(times int64) int64 { return times * s.Limit.Capacity() }

// perSecond is the limit's rate for one subject.
func (s *Setting) perSecond() float64 { return float64(s.Limit.Count) / s.Limit.Period.Seconds() }

// length is the length of a scenario without its own end: two periods, but at least 10 seconds and at most a minute.
func (s *Setting) length() time.Duration {
	return min(max(2*s.Limit.Period, 10*time.Second), time.Minute)
}

// Scenarios returns all scenarios.
func Scenarios() []Scenario {
	length := func(s Setting) time.Duration { return s.length() }
	return []Scenario{
		{"boundary", "a full burst just before and just after a window's edge", 1, 1, 1, boundary,
			func(s Setting) time.Duration {
				lead, gap := s.aroundEdge()
				return s.firstEdge() + gap + lead
			}},
		{"idle-burst", "twice what the limit allows at once, and again after being idle for longer than it takes to " +
			"be free", 1, 1, 2,
			func(s Setting) Load { return s.every(s.idleTime()) },
			func(s Setting) time.Duration { return s.idleTime() + s.Limit.Period/10 }},
		{"thundering-herd", "everyone at once, with twice what the limit allows, and again each period", 10, 1, 2,
			func(s Setting) Load { return s.every(s.Limit.Period) }, length},
		{"steady", "everyone evenly, at twice the limit's rate", 10, 1, 0,
			func(s Setting) Load { return &rounds{s.Duration, []round{s.round(2, 0, s.Subjects)}} }, length},
		{"noisy-neighbour", "one at 50 times the limit's rate, the others at half of it", 10, 2, 0,
			func(s Setting) Load {
				return &rounds{s.Duration, []round{s.round(50, 0, 1), s.round(0.5, 1, s.Subjects-1)}}
			}, length},
		{"slow-drip", "everyone evenly, at nine tenths of the limit's rate", 10, 1, 0,
			func(s Setting) Load { return &rounds{s.Duration, []round{s.round(0.9, 0, s.Subjects)}} }, length},
	}
}

// ParseScenario finds a scenario by name. An error is a [store.ErrInvalid] that lists them.
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

// Length returns the default length of the scenario.
func (s *Scenario) Length(setting Setting) time.Duration { return s.duration(setting) }

// AtOnce returns the most requests that the scenario sends at the same instant.
func (s *Scenario) AtOnce(setting Setting) int64 {
	return setting.requests(s.times) * int64(setting.Subjects)
}

// Load returns the scenario's requests, at a cost of 1 each. There are none if the setting's Duration ends before the
// first.
func (s *Scenario) Load(setting Setting) Load { return s.load(setting) }

// volley is requests at one instant.
type volley struct {
	due   time.Duration
	times int // that each subject sends
}

// listed is a Load with times that are known in advance.
type listed struct {
	volleys  []volley
	subjects int
	i        int // of the first volley
}

// Next lets the subjects of a volley take turns.
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

// aroundEdge returns how long before a window's edge one burst begins, and how long after the edge the other one
// begins. The first is long enough to decide the whole burst before the edge. The second is long enough that a
// small error of the clock does not put the burst before the edge. Both bursts are within one period.
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

// A window with a slightly wrong edge is right about bursts that are far enough from it. So some requests come
// close to the edge, on both sides: one of each subject every stepAtEdge.
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
	// If a period is shorter than a burst, the bursts of several edges overlap.
	slices.SortStableFunc(l.volleys, func(a, b volley) int { return cmp.Compare(a.due, b.due) })
	return l
}

// idleTime is how long a key is idle between two bursts: until it is free again, and then one and a half periods,
// in which a limiter with a wrong burst saves up more.
func (s *Setting) idleTime() time.Duration {
	free := float64(s.Limit.Capacity()) / s.perSecond() * float64(time.Second)
	return time.Duration(free) + s.Limit.Period*3/2
}

// every sends, for each subject, twice what the limit allows at once, again and again.
func (s *Setting) every(gap time.Duration) Load {
	l := &listed{subjects: s.Subjects}
	for due := time.Duration(0); due < s.Duration; due += gap {
		l.volleys = append(l.volleys, volley{due, int(s.requests(2))})
	}
	return l
}

// round is subjects that take turns, at even distances.
type round struct {
	gap             float64 // nanoseconds
	first, subjects uint32
	n               uint64 // requests so far
}

// round lets that many subjects each send at a multiple of the limit's rate.
func (s *Setting) round(rate float64, first, subjects int) round {
	gap := float64(time.Second) / (rate * s.perSecond() * float64(subjects))
	return round{gap: gap, first: uint32(first), subjects: uint32(subjects)}
}

// rounds is a Load of rounds side by side.
type rounds struct {
	until time.Duration
	all   []round
}

// Next implements [Load].
func (r *rounds) Next() (Arrival, bool) {
	due := func(one round) time.Duration { return time.Duration(float64(one.n) * one.gap) }
	next := &r.all[0]
	for i := range r.all {
		if due(r.all[i]) < due(*next) {
			next = &r.all[i]
		}
	}
	a := Arrival{Due: due(*next), Subject: next.first + uint32(next.n%uint64(next.subjects)), Cost: 1}
	next.n++
	return a, a.Due < r.until
}
