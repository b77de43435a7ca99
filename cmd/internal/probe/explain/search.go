package explain

import (
	"math"
	"slices"
	"time"
)

// Explanation is what is left of a family: the models with the fewest unexplained observations.
type Explanation struct {
	family    family
	Models    []Model // the most usual numbers first
	Low, High time.Duration
	Wrong     int // the observations that the best of them does not explain
	// Round says that the period of the first model is almost certainly right.
	Round bool
}

const (
	ladder     = 40 // the periods that are tried between two at once
	zooms      = 5
	mostUsual  = 24 // the usual periods that are tried
	mostModels = 3  // the models of a family that are kept
)

// tried is a period, and the models for it that are least wrong.
type tried struct {
	numbers
	models []Model
	wrong  int
}

// try compares the models with given numbers with the evidence, and keeps those that are least wrong.
func (v *Evidence) try(h *hypothesis, n numbers, most int) tried {
	t := tried{numbers: n, wrong: most}
	for _, m := range h.build(n) {
		wrong := v.h.Contradictions(&m, t.wrong+1)
		if wrong > t.wrong || wrong >= most {
			continue
		}
		if wrong < t.wrong {
			t.models, t.wrong = nil, wrong
		}
		t.models = append(t.models, m)
	}
	return t
}

// explain finds the models of a family that are least wrong, by trying ever finer periods around the best ones.
func (v *Evidence) explain(h hypothesis) Explanation {
	most := math.MaxInt / 2
	var best []tried
	low, high := h.low, h.high
	for range zooms {
		if low > high || low <= 0 {
			break
		}
		var points []numbers
		points = append(points, h.simple(low, high, mostUsual)...)
		ratio := math.Pow(float64(high)/float64(low), 1.0/ladder)
		for i, x := 0, float64(low); i <= ladder; i, x = i+1, x*ratio {
			points = append(points, numbers{span: time.Duration(x)})
		}
		slices.SortStableFunc(points, func(a, b numbers) int { return int(a.span - b.span) })
		all := make([]tried, len(points))
		for _, i := range coarsely(len(points)) {
			all[i] = v.try(&h, points[i], most)
			most = min(most, all[i].wrong+3)
		}
		best = leastWrong(all)
		if len(best) == 0 {
			break
		}
		// The neighbours of the best bound them.
		i := slices.IndexFunc(all, func(t tried) bool { return t.span == best[0].span })
		j := len(all) - 1
		for all[j].span != best[len(best)-1].span {
			j--
		}
		low, high = all[max(0, i-1)].span, all[min(len(all)-1, j+1)].span
		if best[0].wrong > 0 && h.aligned {
			v.turnsOf(&best[0])
		}
		if best[0].wrong == 0 && high-low <= best[0].span/50 {
			break
		}
	}
	return v.usual(&h, best, low, high)
}

// coarsely returns the numbers below n in an order of ever smaller steps, so that something near the best comes
// soon, and most of what is worse ends early.
func coarsely(n int) []int {
	order := make([]int, 0, n)
	step := 16
	for i := 0; i < n; i += step {
		order = append(order, i)
	}
	for ; step > 1; step /= 2 {
		for i := step / 2; i < n; i += step {
			order = append(order, i)
		}
	}
	return order
}

// turnsOf finds the ends of windows by which less is wrong, in ever smaller steps from where they seem to be.
func (v *Evidence) turnsOf(t *tried) {
	m := t.models[0]
	period, wrong := m.Limit.Period, t.wrong
	for by := period / 8; by > time.Millisecond && wrong > 0; by /= 2 {
		for _, phase := range []time.Duration{m.Phase + by, m.Phase - by} {
			other := m
			other.Phase = ((phase%period + period) % period).Truncate(time.Microsecond)
			if now := v.h.Contradictions(&other, wrong); now < wrong {
				m, wrong = other, now
				break
			}
		}
	}
	if wrong < t.wrong {
		begin := v.first.Sent.UnixMicro()
		turn := begin - begin%period.Microseconds() + m.Phase.Microseconds()
		v.turns = append(v.turns, time.UnixMicro(turn))
	}
}

func leastWrong(all []tried) (best []tried) {
	for _, t := range all {
		if len(t.models) == 0 || len(best) > 0 && t.wrong > best[0].wrong {
			continue
		}
		if len(best) > 0 && t.wrong < best[0].wrong {
			best = nil
		}
		best = append(best, t)
	}
	return best
}

// usual keeps, of the models between two periods that are least wrong, those with the most usual numbers, and those
// at both ends, so that sequences can decide between them.
func (v *Evidence) usual(h *hypothesis, best []tried, low, high time.Duration) (e Explanation) {
	if len(best) == 0 {
		return Explanation{Wrong: math.MaxInt}
	}
	e.Wrong, e.Low, e.High = best[0].wrong, low, high
	take := func(t tried) {
		for _, m := range t.models {
			if t.wrong == e.Wrong && !slices.Contains(e.Models, m) {
				e.Models = append(e.Models, m)
			}
		}
	}
	found := 0
	for _, n := range h.simple(low, high, mostUsual) {
		t := v.try(h, n, e.Wrong+1)
		if t.wrong != e.Wrong || len(t.models) == 0 {
			continue
		}
		if found == 0 {
			e.Round = n.count == 0 && isRound(n.span, low, high) || n.count != 0 && n.isRound(low, high)
		}
		take(t)
		if found++; found == mostModels || e.Round {
			break
		}
	}
	if !e.Round || found == 0 {
		take(best[0])
		take(best[len(best)-1])
	}
	return e
}

// isRound reports whether a rate is almost certainly right, if what was admitted at first comes back between low and
// high.
func (n *numbers) isRound(low, high time.Duration) bool {
	known := float64(high-low) / float64(n.span)
	if period := float64(n.period); isRound(n.period, n.period, n.period+time.Duration(known*period)) && rankOf(n.period) > 0 {
		return true
	}
	unit := int64(1)
	for n.count%(unit*10) == 0 {
		unit *= 10
	}
	if n.count > 1000 && len(trimZeros(n.count)) > 1 && n.period >= time.Hour {
		return false // nobody writes such a rate
	}
	return known <= min(0.08, float64(unit)/float64(n.count)/2)
}

// Explanations returns the explanations that are least wrong. Those of before, with less evidence, say where to look
// first: a family that did not explain less evidence cannot explain more.
func (v *Evidence) Explanations(before []Explanation) []Explanation {
	if !v.Recovered() {
		return before
	}
	all := v.hypotheses()
	found := v.among(narrowed(all, before))
	if len(found) == 0 || found[0].Wrong > 0 {
		found = v.among(all)
	}
	return found
}

// narrowed returns the hypotheses that are left, with the periods that are left.
func narrowed(all []hypothesis, before []Explanation) (left []hypothesis) {
	for i := range before {
		e := &before[i]
		at := slices.IndexFunc(all, func(h hypothesis) bool { return h.family == e.family })
		if at < 0 || e.Wrong > 0 {
			return nil
		}
		h := all[at]
		h.low, h.high = max(h.low, e.Low-e.Low/1000), min(h.high, e.High+e.High/1000)
		left = append(left, h)
	}
	return left
}

// among keeps the explanations that are least wrong.
func (v *Evidence) among(hypotheses []hypothesis) (found []Explanation) {
	for _, h := range hypotheses {
		e := v.explain(h)
		e.family = h.family
		if len(e.Models) == 0 || len(found) > 0 && e.Wrong > found[0].Wrong {
			continue
		}
		if len(found) > 0 && e.Wrong < found[0].Wrong {
			found = nil
		}
		found = append(found, e)
	}
	return found
}
