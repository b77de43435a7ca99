package explain

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
)

// Evidence is everything that models are made from and compared with.
type Evidence struct {
	h     history
	first *Event // the first admitted one of the first subject
	last  *Event // the last admitted one of the first burst
	// fast is the event after which several workers sent requests. Before it, everything may have come back at once.
	fast  *Event
	edges []edge // of the first subject
	// sharp are the edges of all subjects, the narrowest first.
	sharp []edge
	// counts are the numbers that a full limit may admit, the likeliest first.
	counts []int64
	// turns are the ends of windows that explain most.
	turns []time.Time
	// longest is the longest period that the probe can recognize.
	longest time.Duration
}

// NewEvidence makes evidence of events. burst are the requests of the first subject until one was denied. shared
// says that all subjects have one limit, and counts are the numbers that it may admit.
func NewEvidence(events, burst []Event, shared bool, counts []int64) Evidence {
	v := Evidence{h: HistoryOf(events, shared), counts: counts, longest: 400 * 24 * time.Hour}
	first := slices.IndexFunc(events, func(e Event) bool { return e.Outcome == endpoint.Allowed })
	v.first = &events[first]
	for i := range burst {
		if e := &burst[i]; e.Outcome == endpoint.Allowed && (v.last == nil || e.Answered.After(v.last.Answered)) {
			v.last = e
		}
	}
	if v.fast = v.first; len(burst) > Sequential {
		v.fast = &burst[Sequential-1]
	}
	v.edges = edgesOf(v.h[0])
	for _, one := range v.h {
		v.sharp = append(v.sharp, edgesOf(one)...)
	}
	slices.SortFunc(v.sharp, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.by.Sub(a.after), b.by.Sub(b.after)), a.after.Compare(b.after))
	})
	return v
}

// alignedPeriod returns the range of the period of windows that do not begin with a request: whole periods lie
// between two edges.
func (v *Evidence) alignedPeriod() (low, high time.Duration) {
	low = v.edges[0].after.Sub(v.last.Answered)
	if len(v.edges) < 2 {
		return low, v.longest
	}
	a, b := v.edges[0], v.edges[1]
	return max(low, b.after.Sub(a.by)-2*time.Millisecond), b.by.Sub(a.after) + 2*time.Millisecond
}

// fadingPhases returns the phases of a sliding counter's windows by which the first units come back when they did,
// one after the other while the share of the first window fades.
func (v *Evidence) fadingPhases(m Model, period time.Duration) (phases []time.Duration) {
	each, unit := period/time.Duration(v.counts[0]), time.Duration(1)
	if m.floored() {
		unit = 0
	}
	var low, high time.Time // the end of the window
	for i, e := range v.edges {
		if i > 0 {
			unit += time.Duration(e.between)
		}
		back := unit * each
		if m.RoundsNearest {
			back += each / 2
		}
		after, by := e.after.Add(-back), e.by.Add(-back)
		switch {
		case i == 0:
			low, high = after, by
			continue
		case after.After(low):
			low = after
		}
		if by.Before(high) {
			high = by
		}
		if high.Before(low) {
			return phases
		}
		phases = phases[:0]
		for share := range time.Duration(5) {
			phases = append(phases, phaseOf(low.Add(high.Sub(low)*share/4), period))
		}
	}
	return phases
}

// phaseOf returns the phase of windows of which one ends at an instant.
func phaseOf(end time.Time, period time.Duration) time.Duration {
	return time.Duration(end.UnixMicro()%period.Microseconds()) * time.Microsecond
}

// phases returns the phases of windows of a period by which one ended at the sharpest edge, 0 first.
func (v *Evidence) phases(period time.Duration) []time.Duration {
	phases := []time.Duration{0}
	if period < time.Microsecond {
		return phases
	}
	for _, at := range v.turns {
		phases = append(phases, phaseOf(at, period))
	}
	if len(v.sharp) == 0 {
		return phases
	}
	// Whole periods lie between any two edges, so all edges together bound the instant of one.
	low, high := v.sharp[0].after, v.sharp[0].by
	for _, e := range v.sharp[1:] {
		periods := (low.Sub(e.after) + period/2) / period
		if low.Before(e.after) {
			periods = -((e.after.Sub(low) + period/2) / period)
		}
		after, by := e.after.Add(periods*period), e.by.Add(periods*period)
		if by.Before(low) || after.After(high) {
			break
		}
		if after.After(low) {
			low = after
		}
		if by.Before(high) {
			high = by
		}
	}
	for share := range time.Duration(5) {
		phases = append(phases, phaseOf(low.Add(high.Sub(low)*share/4), period))
	}
	return phases
}

// gap returns the range of the time between the return of two units.
func (v *Evidence) gap() (low, high time.Duration) {
	first, last := v.edges[0], v.edges[len(v.edges)-1]
	if len(v.edges) < 2 {
		return time.Microsecond, first.by.Sub(v.first.Sent)
	}
	count := 0
	for _, e := range v.edges[1:] {
		count += e.between
	}
	low = last.after.Sub(first.by) / time.Duration(count)
	return max(low, time.Microsecond), last.by.Sub(first.after) / time.Duration(count)
}

// burstOf returns the range of a bucket's burst, given the nanoseconds that a unit takes to come back: what was
// admitted at first, less what came back meanwhile.
func (v *Evidence) burstOf(gap float64, tick time.Duration) (lowest, highest int64) {
	shortest := max(0, v.last.Sent.Sub(v.fast.Answered)-2*time.Millisecond)
	longest := v.last.Answered.Sub(v.first.Sent) + 2*time.Millisecond + tick
	admitted := v.counts[0]
	lowest = admitted - int64(math.Ceil(float64(longest)/gap))
	highest = admitted - int64(float64(shortest)/gap) + 1
	return max(1, lowest), max(1, min(highest, v.counts[len(v.counts)-1]))
}

// Recovered reports whether the first subject was admitted again after a denial.
func (v *Evidence) Recovered() bool { return len(v.edges) > 0 }

// DeniedOnlyTogether reports whether requests were denied only while others of their subject were under way.
func (v *Evidence) DeniedOnlyTogether() bool {
	for _, one := range v.h {
		for i := range one {
			alone := one[i].n == 1 && (i == 0 || one[i-1].answered <= one[i].sent) && (i+1 == len(one) || one[i+1].sent >= one[i].answered)
			if one[i].outcome == endpoint.Denied && alone {
				return false
			}
		}
	}
	return true
}

// Reach returns how much earlier and later the windows of a model can begin so that it explains as much.
func (v *Evidence) Reach(m *Model, wrong int) (earlier, later time.Duration) {
	period := m.Limit.Period
	reach := func(direction time.Duration) time.Duration {
		explains := func(by time.Duration) bool {
			other := *m
			other.Phase = ((m.Phase+direction*by)%period + period) % period
			return v.h.Contradictions(&other, wrong+1) <= wrong
		}
		good, bad := time.Duration(0), time.Millisecond
		for bad < period/2 && explains(bad) {
			good, bad = bad, bad*2
		}
		for bad-good > time.Millisecond/2 {
			if middle := ((good + bad) / 2).Truncate(time.Microsecond); explains(middle) {
				good = middle
			} else {
				bad = middle
			}
		}
		return good
	}
	return reach(-1), reach(1)
}

// WindowEdges returns the instants at which a window of the models may end whose windows do not begin with a
// request.
func (v *Evidence) WindowEdges(models []Model) (edges []time.Time) {
	if !slices.ContainsFunc(models, func(m Model) bool { return m.IsAligned() }) || len(v.sharp) == 0 {
		return nil
	}
	e := v.sharp[0]
	return []time.Time{e.after.Add(e.by.Sub(e.after) / 2)}
}

// edge is a recovery: a subject that had been denied was admitted again.
type edge struct {
	after, by time.Time // when the last denial was sent and the admission was answered
	between   int       // admitted since the edge before, or since the beginning
}

// edgesOf returns the recoveries of one subject.
func edgesOf(one []observation) (edges []edge) {
	admitted := 0
	var denied *observation
	for i := range one {
		o := &one[i]
		switch o.outcome {
		case endpoint.Denied:
			denied = o
		case endpoint.Allowed:
			if denied != nil {
				edges = append(edges, edge{denied.sent.Time(), o.answered.Time(), admitted})
				denied, admitted = nil, 0
			}
			admitted += int(o.n)
		case endpoint.Failed: // may have been counted, and proves nothing
		}
	}
	return edges
}
