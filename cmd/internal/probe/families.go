package probe

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// numbers are those of a limit whose kind is given. A count of 0 stands for what the
// first burst admitted.
type numbers struct {
	span   time.Duration // the period, or of a bucket how long all of its burst takes to come back
	count  int64
	period time.Duration
}

// hypothesis is a family of models with a range in which its period must lie.
type hypothesis struct {
	index     int // among all of them
	low, high time.Duration
	// aligned: when windows begin does not depend on requests.
	aligned bool
	// simple returns the usual numbers between two spans, the most usual first.
	simple func(low, high time.Duration, most int) []numbers
	// build returns the models with these numbers, whose other numbers follow from what was seen.
	build func(n numbers) []model
}

// evidence is all that models are made of and held against.
type evidence struct {
	h     history
	first *Event // that was admitted, of the first subject
	last  *Event // that was admitted in the first burst
	// fast is the one after which several workers asked. Before, all may have come back at once.
	fast  *Event
	edges []edge // of the first subject
	// sharp are the edges of all subjects, the narrowest first.
	sharp []edge
	// counts are how many a full limit may admit, the likeliest first.
	counts []int64
	// turns are instants at which windows end that were found to explain most.
	turns []time.Time
	// longest is the longest period that can be told.
	longest time.Duration
}

// newEvidence makes evidence of events. burst is the requests of the first subject until one was
// denied. shared says that all subjects have one limit, and counts are how many it may admit.
func newEvidence(events, burst []Event, shared bool, counts []int64) evidence {
	v := evidence{h: historyOf(events, shared), counts: counts, longest: 400 * 24 * time.Hour}
	first := slices.IndexFunc(events, func(e Event) bool { return e.Outcome == endpoint.Allowed })
	v.first = &events[first]
	for i := range burst {
		if e := &burst[i]; e.Outcome == endpoint.Allowed && (v.last == nil || e.Answered.After(v.last.Answered)) {
			v.last = e
		}
	}
	if v.fast = v.first; len(burst) > sequential {
		v.fast = &burst[sequential-1]
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

func spans(low, high time.Duration, most int) (all []numbers) {
	for _, p := range simplePeriods(low, high, most) {
		all = append(all, numbers{span: p})
	}
	return all
}

// hypotheses returns all families that could explain the evidence.
func (v *evidence) hypotheses() []hypothesis {
	var all []hypothesis
	add := func(low, high time.Duration, build func(period time.Duration) []model) {
		all = append(all, hypothesis{
			0, max(time.Millisecond, low), min(high, v.longest), false, spans,
			func(n numbers) []model { return build(n.span) },
		})
	}
	e := v.edges[0]
	after, by := e.after.Sub(v.first.Answered)-2*time.Millisecond, e.by.Sub(v.first.Sent)+2*time.Millisecond
	all = append(all, v.buckets()...)
	add(after, by, func(p time.Duration) []model {
		return v.windows(model{limit: store.Limit{Algorithm: store.FixedWindow, FromFirst: true}}, p)
	})
	add(after, by, func(p time.Duration) []model {
		return v.windows(model{limit: store.Limit{Algorithm: store.SlidingLog}}, p)
	})
	add(after, by, func(p time.Duration) []model {
		return v.windows(model{limit: store.Limit{Algorithm: store.FixedWindow}, Manner: Manner{Anchored: true}}, p)
	})
	alignedLow, alignedHigh := v.alignedPeriod()
	add(alignedLow, alignedHigh, v.alignedWindows)
	all[len(all)-1].aligned = true
	low, high := v.gap()
	for _, n := range v.counts[:1] {
		spanLow, spanHigh := time.Duration(n)*low, time.Duration(n)*high
		for _, manner := range []Manner{{}, {Anchored: true, RoundsDown: true}, {RoundsDown: true}, {RoundsNearest: true}} {
			// All of the first burst counts in full for at most one period, and one of it
			// leaves after another nth.
			add(max(spanLow/2, after*4/9), max(spanHigh*2, by), func(p time.Duration) []model {
				return v.counters(model{limit: store.Limit{Algorithm: store.SlidingCounter}, Manner: manner}, p)
			})
			all[len(all)-1].aligned = !manner.Anchored
		}
		for _, slices := range []int64{2, 3, 4, 5, 6, 8, 10, 12, 20, 24, 30, 60, 100} {
			if time.Duration(slices)*low > 2*by {
				break
			}
			add(after*9/10-2*time.Millisecond, by+by/time.Duration(slices)*2, func(p time.Duration) []model {
				p -= p % (time.Duration(slices) * time.Microsecond)
				return v.counters(model{limit: store.Limit{Algorithm: store.SlidingCounter, Slices: slices}}, p)
			})
		}
	}
	return append(append(all, v.punishing()...), v.banning()...)
}

// banning returns the families that deny everything for a fixed time after a denial. How long
// that is, is seen. The period of their limit is not, so the usual ones that are shorter are tried,
// which requests without a denial tell apart.
func (v *evidence) banning() (all []hypothesis) {
	denied := slices.IndexFunc(v.h[0], func(o observation) bool { return o.outcome == endpoint.Denied })
	first, e := &v.h[0][denied], v.edges[0]
	low, high := e.after.Sub(first.answered.Time())-2*time.Millisecond, e.by.Sub(first.sent.Time())+2*time.Millisecond
	for _, limit := range []store.Limit{
		{Algorithm: store.FixedWindow, FromFirst: true}, {Algorithm: store.SlidingLog}, {Algorithm: store.TokenBucket},
		{Algorithm: store.FixedWindow},
	} {
		build := func(n numbers) (models []model) {
			for _, period := range simplePeriods(max(v.last.Answered.Sub(v.first.Sent), n.span/1000), n.span, mostBanned) {
				models = append(models, v.windows(model{limit: limit, Manner: Manner{Ban: n.span.Truncate(time.Microsecond)}}, period)...)
			}
			return models
		}
		all = append(all, hypothesis{0, max(time.Millisecond, low), min(high, v.longest), false, spans, build})
	}
	return all
}

// mostBanned is how many periods are tried of a limit that bans.
const mostBanned = 12

// punishing returns the families by which denied requests count.
func (v *evidence) punishing() []hypothesis {
	e := v.edges[0]
	by := e.by.Sub(v.first.Sent) + 2*time.Millisecond
	hypothesisOf := func(low, high time.Duration, m model) hypothesis {
		build := func(n numbers) []model {
			if m.limit.Algorithm == store.SlidingCounter {
				return v.counters(m, n.span)
			}
			return v.windows(m, n.span)
		}
		return hypothesis{0, max(time.Millisecond, low), min(high, v.longest), m.isAligned(), spans, build}
	}
	fromFirst := store.Limit{Algorithm: store.FixedWindow, FromFirst: true}
	counter := store.Limit{Algorithm: store.SlidingCounter}
	return []hypothesis{
		hypothesisOf(by/50, by, model{limit: fromFirst, Manner: Manner{Refreshed: true}}),
		hypothesisOf(by/50, by, model{limit: store.Limit{Algorithm: store.SlidingLog}, Manner: Manner{ChargesDenied: true}}),
		hypothesisOf(by/50, by, model{limit: counter, Manner: Manner{ChargesDenied: true}}),
		hypothesisOf(by/50, by, model{limit: counter, Manner: Manner{ChargesDenied: true, RoundsDown: true}}),
		hypothesisOf(by/50, by, model{limit: counter, Manner: Manner{ChargesDenied: true, RoundsDown: true, Anchored: true}}),
	}
}

// windows returns the models of a limit for each count that a full one may admit.
func (v *evidence) windows(m model, period time.Duration) (models []model) {
	for _, n := range v.counts {
		m.limit.Count, m.limit.Period, m.limit.Burst = n, period.Truncate(time.Microsecond), n
		if limit, err := m.limit.Normalize(); err == nil {
			m.limit = limit
			models = append(models, m)
		}
	}
	return models
}

// alignedPeriod returns the range of the period of windows that do not begin with a request:
// what lies between two edges is whole periods.
func (v *evidence) alignedPeriod() (low, high time.Duration) {
	low = v.edges[0].after.Sub(v.last.Answered)
	if len(v.edges) < 2 {
		return low, v.longest
	}
	a, b := v.edges[0], v.edges[1]
	return max(low, b.after.Sub(a.by)-2*time.Millisecond), b.by.Sub(a.after) + 2*time.Millisecond
}

// alignedWindows returns fixed windows that begin at whole periods since the epoch, or beside
// them where the sharpest edges say so.
func (v *evidence) alignedWindows(period time.Duration) (models []model) {
	for _, phase := range v.phases(period) {
		models = append(models, v.windows(model{limit: store.Limit{Algorithm: store.FixedWindow}, phase: phase}, period)...)
	}
	return models
}

// counters returns sliding counters, whose first unit comes back after a window's end by
// the time that one unit takes to fade.
func (v *evidence) counters(m model, period time.Duration) (models []model) {
	if m.Anchored || m.limit.Slices > 0 {
		return v.windows(m, period)
	}
	for _, phase := range append(v.phases(period), v.fadingPhases(m, period)...) {
		m.phase = phase
		models = append(models, v.windows(m, period)...)
	}
	return models
}

// fadingPhases returns the phases of a sliding counter's windows so that the first units came
// back when they did, one after the other while the first window's share fades.
func (v *evidence) fadingPhases(m model, period time.Duration) (phases []time.Duration) {
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

// phaseOf returns the phase of windows one of which ends at an instant.
func phaseOf(end time.Time, period time.Duration) time.Duration {
	return time.Duration(end.UnixMicro()%period.Microseconds()) * time.Microsecond
}

// phases returns the phases that windows of a period can have so that one ended at the
// sharpest edge: 0 first.
func (v *evidence) phases(period time.Duration) []time.Duration {
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
	// Whole periods lie between any two edges, so all of them together say when one was.
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

// gap returns the range of the time from one unit's coming back to the next one's.
func (v *evidence) gap() (low, high time.Duration) {
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

// buckets returns the families of buckets. A unit comes back at constant intervals.
func (v *evidence) buckets() []hypothesis {
	low, high := v.gap()
	full := func(gap time.Duration) time.Duration { return time.Duration(v.counts[0]) * gap }
	simple := func(low, high time.Duration, most int) []numbers { return v.simpleRates(low, high, most) }
	exact := hypothesis{0, max(time.Millisecond, full(low)/2), min(v.longest*4, full(high)*2), false, simple, func(n numbers) []model {
		return v.bucketsOf(n, 0)
	}}
	ticking, thousandths := exact, exact
	ticking.build = func(n numbers) []model { return v.bucketsOf(n, time.Second) }
	thousandths.build = func(n numbers) []model {
		models := v.bucketsOf(n, 0)
		for i := range models {
			models[i].Thousandths = true
		}
		return models
	}
	return []hypothesis{exact, ticking, thousandths}
}

// bucketsOf returns buckets of a rate. How much they hold is what the first burst admitted
// less what came back meanwhile.
func (v *evidence) bucketsOf(n numbers, tick time.Duration) (models []model) {
	admitted := v.counts[0]
	if n.count == 0 {
		n.count, n.period = admitted, n.span.Truncate(time.Microsecond)
	}
	back := func(d time.Duration) int64 {
		return int64(math.Ceil(float64(d) / float64(n.period) * float64(n.count)))
	}
	lowest, highest := v.burstOf(float64(n.period)/float64(n.count), tick)
	bursts := simpleCounts(lowest, highest, 4)
	for _, c := range append([]int64{n.count}, v.counts...) {
		if c >= lowest && c <= highest && !slices.Contains(bursts, c) {
			bursts = append(bursts, c)
		}
	}
	for _, burst := range bursts {
		if back(tick) >= burst && tick > 0 {
			continue // a fixed window
		}
		limit, err := store.Limit{Algorithm: store.TokenBucket, Count: n.count, Period: n.period, Burst: burst}.Normalize()
		if err == nil {
			models = append(models, model{limit: limit, Manner: Manner{Tick: tick}})
		}
	}
	return models
}

// burstOf returns between what a bucket's burst must lie, at so many nanoseconds a unit: what
// was admitted at first less what came back meanwhile.
func (v *evidence) burstOf(gap float64, tick time.Duration) (lowest, highest int64) {
	shortest := max(0, v.last.Sent.Sub(v.fast.Answered)-2*time.Millisecond)
	longest := v.last.Answered.Sub(v.first.Sent) + 2*time.Millisecond + tick
	admitted := v.counts[0]
	lowest = admitted - int64(math.Ceil(float64(longest)/gap))
	highest = admitted - int64(float64(shortest)/gap) + 1
	return max(1, lowest), max(1, min(highest, v.counts[len(v.counts)-1]))
}

// recovered reports whether the first subject was admitted again after a denial.
func (v *evidence) recovered() bool { return len(v.edges) > 0 }

// deniedOnlyTogether reports whether no request was denied but while others of its subject
// were under way.
func (v *evidence) deniedOnlyTogether() bool {
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

// reach returns by how much earlier and later the windows of a model can begin, so that it explains as
// much.
func (v *evidence) reach(m *model, wrong int) (earlier, later time.Duration) {
	period := m.limit.Period
	reach := func(direction time.Duration) time.Duration {
		explains := func(by time.Duration) bool {
			other := *m
			other.phase = ((m.phase+direction*by)%period + period) % period
			return v.h.contradictions(&other, wrong+1) <= wrong
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

// windowEdges returns when a window may end of the models whose windows do not begin with a request.
func (v *evidence) windowEdges(models []model) (edges []time.Time) {
	if !slices.ContainsFunc(models, func(m model) bool { return m.isAligned() }) || len(v.sharp) == 0 {
		return nil
	}
	e := v.sharp[0]
	return []time.Time{e.after.Add(e.by.Sub(e.after) / 2)}
}
