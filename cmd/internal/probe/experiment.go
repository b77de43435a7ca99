package probe

import (
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// step is requests of an experiment: so many, one right after the other, at a time after its
// begin. With untilDenied they end after the first denial.
type step struct {
	at          time.Duration
	n           int
	untilDenied bool
}

// experiment is a schedule for a subject that nobody has asked for yet.
type experiment struct {
	name string
	// begin is when it begins; zero means at once.
	begin time.Time
	steps []step
}

// requests returns the most requests of an experiment.
func (x *experiment) requests() (n int) {
	for _, step := range x.steps {
		n += step.n
	}
	return n
}

// signature is equal for experiments that differ in when they begin.
func (x *experiment) signature() string { return fmt.Sprint(x.steps, x.begin.IsZero()) }

func (x *experiment) last() time.Duration { return x.steps[len(x.steps)-1].at }

// outcome is what a model predicts, or what was seen: admitted at each step.
type outcome [5]int64

// pace is how long so many requests of a step take.
type pace struct {
	each    time.Duration // request
	workers int
}

func (p pace) of(n int64) time.Duration {
	one := min(n, sequential)
	return p.each*time.Duration(one) + p.each*time.Duration(n-one)/time.Duration(max(1, p.workers))
}

// predict returns what a model would admit if the steps after the first came later by some
// time than planned.
func (x *experiment) predict(m *model, begin store.Instant, late time.Duration, p pace) (o outcome) {
	var u usage
	for i, s := range x.steps {
		now := begin + store.Instant(s.at.Microseconds())
		if i > 0 {
			now += store.Instant(late.Microseconds())
		}
		now = max(now, u.last)
		// One half of the requests comes at the begin, the other at the end.
		half := int64(s.n+1) / 2
		room := min(m.room(&u, now), half)
		if s.untilDenied && room < half {
			half = room + 1
		}
		m.take(&u, half, room, now)
		o[i] = room
		rest := int64(s.n) - half
		if rest == 0 || s.untilDenied && room < half {
			continue
		}
		now += store.Instant(p.of(int64(s.n)).Microseconds())
		room = min(m.room(&u, now), rest)
		if s.untilDenied {
			rest = min(rest, room+1)
		}
		m.take(&u, rest, room, now)
		o[i] += room
	}
	return o
}

// design returns experiments that tell apart limits with so much at once and with these spans of
// time in which it comes back. edges are instants at which windows may end.
func design(full int, spans []time.Duration, edges []time.Time, now time.Time) (all []experiment) {
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

func designFor(full int, span time.Duration, begin time.Time) (all []experiment) {
	add := func(name string, steps ...step) {
		all = append(all, experiment{name, begin, steps})
		// The same with a single request in the end is cheaper.
		if last := &steps[len(steps)-1]; last.n > 1 {
			cheap := slices.Clone(steps)
			cheap[len(steps)-1].n = 1
			all = append(all, experiment{name, begin, cheap})
		}
	}
	at := func(percent int) time.Duration { return span / 100 * time.Duration(percent) }
	for _, percent := range []int{15, 30, 50, 75, 90, 97, 103, 110, 150, 190, 250} {
		add("recovery", step{0, full, false}, step{at(percent), full + 1, true})
	}
	if half := full / 2; half > 0 {
		for _, p := range [][2]int{{50, 110}, {50, 90}, {50, 130}, {25, 110}, {75, 110}, {75, 160}, {90, 105}, {90, 150}} {
			add("two halves", step{0, half, false}, step{at(p[0]), full - half, false}, step{at(p[1]), full + 1, true})
		}
	}
	for _, percent := range []int{60, 90, 110, 150} {
		add("denied again and again", step{0, full + 3, false}, step{at(percent / 3), 2, false}, step{at(percent * 2 / 3), 2, false},
			step{at(percent), full + 1, true})
	}
	for _, p := range [][2]int{{150, 210}, {150, 230}, {130, 205}, {170, 240}} {
		add("a second window", step{0, 1, false}, step{at(p[0]), full + 1, true}, step{at(p[1]), full + 1, true})
	}
	return all
}

// gain is which pairs of models an experiment tells apart.
func (x *experiment) gain(models []model, now time.Time, p pace, unsure time.Duration) (pairs [][2]int) {
	begin := x.begin
	if begin.IsZero() {
		begin = now
	}
	at := store.InstantOf(begin)
	outcomes, stable := make([]outcome, len(models)), make([]bool, len(models))
	for i := range models {
		m := &models[i]
		outcomes[i] = x.predict(m, at, 0, p)
		stable[i] = outcomes[i] == x.predict(m, at, unsure, p) && outcomes[i] == x.predict(m, at, -unsure, p) &&
			outcomes[i] == x.predict(m, at+store.Instant(unsure.Microseconds()), 0, pace{})
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

// choose returns experiments that together tell as many pairs of models apart as can be, the
// cheapest first, within so many requests and so much time.
func choose(
	all []experiment, models []model, now time.Time, p pace, unsure time.Duration, requests int, left time.Duration,
) (chosen []experiment) {
	type candidate struct {
		x     *experiment
		pairs [][2]int
		took  time.Duration
	}
	var candidates []candidate
	for i := range all {
		x := &all[i]
		took := x.last()
		if !x.begin.IsZero() {
			took += x.begin.Sub(now)
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

// perform runs experiments at the same time, each with a subject of its own.
func (s *session) perform(all []experiment) error {
	type action struct {
		at      time.Time
		subject string
		step
	}
	var actions []action
	now := s.clock.Now()
	for i := range all {
		begin := all[i].begin
		if begin.IsZero() {
			begin = now
		}
		subject := s.subject()
		for _, step := range all[i].steps {
			actions = append(actions, action{begin.Add(step.at), subject, step})
		}
	}
	slices.SortStableFunc(actions, func(a, b action) int { return a.at.Compare(b.at) })
	for i := range actions {
		a := &actions[i]
		if err := s.waitUntil(a.at); err != nil {
			return err
		}
		denials := 0
		if a.untilDenied {
			denials = 1
		}
		if _, err := s.sendMany(a.subject, a.n, denials); err != nil {
			return err
		}
	}
	return nil
}

// confirmation returns experiments that would show what no model here does, one after the
// other with a rest in between if there is one.
func confirmation(m *model, requests int, now, end time.Time, rest time.Duration) (all []experiment) {
	full, span := int(m.limit.Capacity()), m.fullSpan()
	var begin time.Time
	if rest > 0 {
		begin = now
	}
	for _, e := range designFor(full, span, begin) {
		wanted := e.name == "recovery" && (e.last() == span/100*50 || e.last() == span/100*97) ||
			e.name == "two halves" && e.last() == span/100*110 && e.steps[1].at == span/100*50 ||
			e.name == "denied again and again" && e.last() == span/100*90 || e.name == "a second window" && e.last() == span/100*210
		if !wanted || e.steps[len(e.steps)-1].n == 1 || e.requests() > requests/3 || now.Add(e.last()+rest).After(end) {
			continue
		}
		if rest > 0 {
			e.begin = now
			now = now.Add(e.last() + rest)
		}
		requests -= e.requests()
		all = append(all, e)
	}
	return all
}

// spansOf returns times that models are told apart by: their periods, and what lies in the
// middle of two.
func spansOf(models []model) (all []time.Duration) {
	var full []time.Duration
	for i := range models {
		full = append(full, models[i].fullSpan())
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
