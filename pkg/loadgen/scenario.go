package loadgen

import (
	"container/heap"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
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
	Limit    limiter.Limit // normalized
	Subjects int
	// ToEdge is how long after the beginning the next period begins by the store's
	// clock: the next whole number of periods since the epoch.
	ToEdge time.Duration
	// Duration is how long it goes on.
	Duration time.Duration
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

// ParseScenario finds a scenario by name. The error is a [limiter.ErrInvalid] that
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
	return Scenario{}, limiter.Invalidf("unknown scenario %q; it is one of %s", name, strings.Join(names, ", "))
}

// Length returns how long the scenario goes on by default.
func (s *Scenario) Length(setting Setting) time.Duration { return s.duration(setting) }

// AtOnce returns how many requests at most the scenario sends at the same instant.
func (s *Scenario) AtOnce(setting Setting) int64 {
	return s.times * setting.Limit.Capacity() * int64(setting.Subjects)
}

// Load returns the scenario's requests, at a cost of 1. There are none if the setting's
// Duration ends before the first.
func (s *Scenario) Load(setting Setting) Load { return s.load(setting) }

// listed is a Load whose times are known in advance.
type listed struct {
	due      []time.Duration // of each volley
	times    int             // that each subject asks in a volley
	subjects int
	i        int
}

// Next has the subjects of a volley ask by turns.
func (l *listed) Next() (Arrival, bool) {
	size := l.times * l.subjects
	volley := l.i / size
	if volley == len(l.due) {
		return Arrival{}, false
	}
	a := Arrival{Due: l.due[volley], Subject: uint32(l.i % size % l.subjects), Cost: 1}
	l.i++
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

func boundary(s Setting) Load {
	lead, gap := s.aroundEdge()
	l := &listed{times: int(s.Limit.Capacity()), subjects: s.Subjects}
	for edge := s.firstEdge(); edge+gap < s.Duration; edge += s.Limit.Period {
		l.due = append(l.due, edge-lead, edge+gap)
	}
	// Where a period is shorter than a burst takes, the bursts of several edges overlap.
	slices.Sort(l.due)
	return l
}

func thunderingHerd(s Setting) Load {
	l := &listed{times: 2 * int(s.Limit.Capacity()), subjects: s.Subjects}
	for due := time.Duration(0); due < s.Duration; due += s.Limit.Period {
		l.due = append(l.due, due)
	}
	return l
}

// evenly has each subject ask at even distances, at a multiple of the limit's rate. The
// subjects do not all ask at the same time.
func (s *Setting) evenly(rate func(subject int) float64) Load {
	turns := &turns{until: s.Duration}
	for subject := range s.Subjects {
		gap := float64(time.Second) / (rate(subject) * s.perSecond())
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
