package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Step is N requests of a sequence, one right after the other, at a time after its beginning. With UntilDenied they
// end after the first denial.
type Step struct {
	At          time.Duration
	N           int
	UntilDenied bool
}

// Sequence is a sequence of requests for a new subject, made to tell models apart.
type Sequence struct {
	name string
	// Begin is when it begins; zero means at once.
	Begin time.Time
	Steps []Step
}

// requests returns the most requests of a sequence.
func (x *Sequence) requests() (n int) {
	for _, step := range x.Steps {
		n += step.N
	}
	return n
}

// Signature is equal for sequences that differ only in when they begin.
func (x *Sequence) Signature() string { return fmt.Sprint(x.Steps, x.Begin.IsZero()) }

// Last returns the time of the last step after the beginning.
func (x *Sequence) Last() time.Duration { return x.Steps[len(x.Steps)-1].At }

// outcome has the admitted requests of each step, predicted or seen.
type outcome [5]int64

// Pace is how long the requests of a step take.
type Pace struct {
	Each    time.Duration // request
	Workers int
}

func (p Pace) of(n int64) time.Duration {
	one := min(n, Sequential)
	return p.Each*time.Duration(one) + p.Each*time.Duration(n-one)/time.Duration(max(1, p.Workers))
}

// predict returns what a model would admit if the steps after the first came late by some time.
func (x *Sequence) predict(m *Model, begin store.Instant, late time.Duration, p Pace) (o outcome) {
	var u usage
	for i, s := range x.Steps {
		now := begin + store.Instant(s.At.Microseconds())
		if i > 0 {
			now += store.Instant(late.Microseconds())
		}
		now = max(now, u.last)
		// Half of the requests come at the beginning, the others at the end.
		half := int64(s.N+1) / 2
		room := min(m.room(&u, now), half)
		if s.UntilDenied && room < half {
			half = room + 1
		}
		m.take(&u, half, room, now)
		o[i] = room
		rest := int64(s.N) - half
		if rest == 0 || s.UntilDenied && room < half {
			continue
		}
		now += store.Instant(p.of(int64(s.N)).Microseconds())
		room = min(m.room(&u, now), rest)
		if s.UntilDenied {
			rest = min(rest, room+1)
		}
		m.take(&u, rest, room, now)
		o[i] += room
	}
	return o
}

// Design returns sequences that tell apart limits with full units at once that come back in one of these spans.
// edges are instants at which windows may end.
func Design(full int, spans []time.Duration, edges []time.Time, now time.Time) (all []Sequence) {
	for _, span := range spans {
		begins := []time.Time{{}}
		for _, edge := range edges {
			for _, share := range []time.Duration{10, 35, 60, 85} {
				begin := edge.Add(span * share / 100)
				if behind := now.Sub(begin); behind > -20*time.Millisecond {
					begin = begin.Add((behind/span + 1) * span)
				}
				begins = append(begins, begin)
			}
		}
		for _, begin := range begins {
			all = append(all, designFor(full, span, begin)...)
		}
	}
	return all
}

func designFor(full int, span time.Duration, begin time.Time) (all []Sequence) {
	add := func(name string, steps ...Step) {
		all = append(all, Sequence{name, begin, steps})
		// The same with a single request at the end is cheaper.
		if last := &steps[len(steps)-1]; last.N > 1 {
			cheap := slices.Clone(steps)
			cheap[len(steps)-1].N = 1
			all = append(all, Sequence{name, begin, cheap})
		}
	}
	at := func(percent int) time.Duration { return span / 100 * time.Duration(percent) }
	for _, percent := range []int{15, 30, 50, 75, 90, 97, 103, 110, 150, 190, 250} {
		add("recovery", Step{0, full, false}, Step{at(percent), full + 1, true})
	}
	if half := full / 2; half > 0 {
		for _, p := range [][2]int{{50, 110}, {50, 90}, {50, 130}, {25, 110}, {75, 110}, {75, 160}, {90, 105}, {90, 150}} {
			add("two halves", Step{0, half, false}, Step{at(p[0]), full - half, false}, Step{at(p[1]), full + 1, true})
		}
	}
	for _, percent := range []int{60, 90, 110, 150} {
		add("denied again and again", Step{0, full + 3, false}, Step{at(percent / 3), 2, false}, Step{at(percent * 2 / 3), 2, false},
			Step{at(percent), full + 1, true})
	}
	for _, p := range [][2]int{{150, 210}, {150, 230}, {130, 205}, {170, 240}} {
		add("a second window", Step{0, 1, false}, Step{at(p[0]), full + 1, true}, Step{at(p[1]), full + 1, true})
	}
	return all
}

// gain returns the pairs of models that a sequence tells apart.
func (x *Sequence) gain(models []Model, now time.Time, p Pace, unsure time.Duration) (pairs [][2]int) {
	begin := x.Begin
	if begin.IsZero() {
		begin = now
	}
	at := store.InstantOf(begin)
	outcomes, stable := make([]outcome, len(models)), make([]bool, len(models))
	for i := range models {
		m := &models[i]
		outcomes[i] = x.predict(m, at, 0, p)
		stable[i] = outcomes[i] == x.predict(m, at, unsure, p) && outcomes[i] == x.predict(m, at, -unsure, p) &&
			outcomes[i] == x.predict(m, at+store.Instant(unsure.Microseconds()), 0, Pace{})
	}
	for i := range models {
		for j := range models[:i] {
			if stable[i] && stable[j] && outcomes[i] != outcomes[j] {
				pairs = append(pairs, [2]int{j, i})
			}
		}
	}
	return pairs
}

// Choose returns sequences that together tell apart as many pairs of models as possible, the cheapest first, within
// so many requests and so much time.
func Choose(
	all []Sequence, models []Model, now time.Time, p Pace, unsure time.Duration, requests int, left time.Duration,
) (chosen []Sequence) {
	type candidate struct {
		x     *Sequence
		pairs [][2]int
		took  time.Duration
	}
	var candidates []candidate
	for i := range all {
		x := &all[i]
		took := x.Last()
		if !x.Begin.IsZero() {
			took += x.Begin.Sub(now)
		}
		if took > left || x.requests() > requests {
			continue
		}
		if pairs := x.gain(models, now, p, unsure); len(pairs) > 0 {
			candidates = append(candidates, candidate{x, pairs, took})
		}
	}
	done := make(map[[2]int]bool)
	for len(chosen) < 6 {
		best, bestWorth := -1, 0.0
		for i := range candidates {
			c := &candidates[i]
			fresh := 0
			for _, pair := range c.pairs {
				if !done[pair] {
					fresh++
				}
			}
			if fresh == 0 || c.x.requests() > requests {
				continue
			}
			worth := float64(fresh) / (0.1 + float64(c.x.requests())/float64(requests+1) + float64(c.took)*4/float64(left+1))
			if worth > bestWorth {
				best, bestWorth = i, worth
			}
		}
		if best < 0 {
			break
		}
		c := &candidates[best]
		chosen = append(chosen, *c.x)
		requests -= c.x.requests()
		for _, pair := range c.pairs {
			done[pair] = true
		}
	}
	return chosen
}

// Confirmation returns sequences that would show behaviour that no model has, one after the other, with a rest in
// between if there is one.
func Confirmation(m *Model, requests int, now, end time.Time, rest time.Duration) (all []Sequence) {
	full, span := int(m.Limit.Capacity()), m.FullSpan()
	var begin time.Time
	if rest > 0 {
		begin = now
	}
	for _, e := range designFor(full, span, begin) {
		wanted := e.name == "recovery" && (e.Last() == span/100*50 || e.Last() == span/100*97) ||
			e.name == "two halves" && e.Last() == span/100*110 && e.Steps[1].At == span/100*50 ||
			e.name == "denied again and again" && e.Last() == span/100*90 || e.name == "a second window" && e.Last() == span/100*210
		if !wanted || e.Steps[len(e.Steps)-1].N == 1 || e.requests() > requests/3 || now.Add(e.Last()+rest).After(end) {
			continue
		}
		if rest > 0 {
			e.Begin = now
			now = now.Add(e.Last() + rest)
		}
		requests -= e.requests()
		all = append(all, e)
	}
	return all
}

// SpansOf returns times that tell models apart: their periods, and the middle between two.
func SpansOf(models []Model) (all []time.Duration) {
	var full []time.Duration
	for i := range models {
		full = append(full, models[i].FullSpan())
	}
	slices.Sort(full)
	for i, span := range full {
		if i > 0 && span-full[i-1] > span/1000 {
			all = append(all, (full[i-1]+span)/2)
		}
		if i == 0 || span-full[i-1] > span/50 {
			all = append(all, span)
		}
	}
	return all
}
