package explain

import (
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
	build func(n numbers) []Model
}

func spans(low, high time.Duration, most int) (all []numbers) {
	for _, p := range simplePeriods(low, high, most) {
		all = append(all, numbers{span: p})
	}
	return all
}

// hypotheses returns all families that could explain the evidence.
func (v *Evidence) hypotheses() []hypothesis {
	var all []hypothesis
	add := func(low, high time.Duration, build func(period time.Duration) []Model) {
		all = append(all, hypothesis{
			0, max(time.Millisecond, low), min(high, v.longest), false, spans,
			func(n numbers) []Model { return build(n.span) },
		})
	}
	e := v.edges[0]
	after, by := e.after.Sub(v.first.Answered)-2*time.Millisecond, e.by.Sub(v.first.Sent)+2*time.Millisecond
	all = append(all, v.buckets()...)
	add(after, by, func(p time.Duration) []Model {
		return v.windows(Model{Limit: store.Limit{Algorithm: store.FixedWindow, FromFirst: true}}, p)
	})
	add(after, by, func(p time.Duration) []Model {
		return v.windows(Model{Limit: store.Limit{Algorithm: store.SlidingLog}}, p)
	})
	add(after, by, func(p time.Duration) []Model {
		return v.windows(Model{Limit: store.Limit{Algorithm: store.FixedWindow}, Manner: Manner{Anchored: true}}, p)
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
			add(max(spanLow/2, after*4/9), max(spanHigh*2, by), func(p time.Duration) []Model {
				return v.counters(Model{Limit: store.Limit{Algorithm: store.SlidingCounter}, Manner: manner}, p)
			})
			all[len(all)-1].aligned = !manner.Anchored
		}
		for _, slices := range []int64{2, 3, 4, 5, 6, 8, 10, 12, 20, 24, 30, 60, 100} {
			if time.Duration(slices)*low > 2*by {
				break
			}
			add(after*9/10-2*time.Millisecond, by+by/time.Duration(slices)*2, func(p time.Duration) []Model {
				p -= p % (time.Duration(slices) * time.Microsecond)
				return v.counters(Model{Limit: store.Limit{Algorithm: store.SlidingCounter, Slices: slices}}, p)
			})
		}
	}
	return append(append(all, v.punishing()...), v.banning()...)
}

// banning returns the families that deny everything for a fixed time after a denial. How long
// that is, is seen. The period of their limit is not, so the usual ones that are shorter are tried,
// which requests without a denial tell apart.
func (v *Evidence) banning() (all []hypothesis) {
	denied := slices.IndexFunc(v.h[0], func(o observation) bool { return o.outcome == endpoint.Denied })
	first, e := &v.h[0][denied], v.edges[0]
	low, high := e.after.Sub(first.answered.Time())-2*time.Millisecond, e.by.Sub(first.sent.Time())+2*time.Millisecond
	for _, limit := range []store.Limit{
		{Algorithm: store.FixedWindow, FromFirst: true}, {Algorithm: store.SlidingLog}, {Algorithm: store.TokenBucket},
		{Algorithm: store.FixedWindow},
	} {
		build := func(n numbers) (models []Model) {
			for _, period := range simplePeriods(max(v.last.Answered.Sub(v.first.Sent), n.span/1000), n.span, mostBanned) {
				models = append(models, v.windows(Model{Limit: limit, Manner: Manner{Ban: n.span.Truncate(time.Microsecond)}}, period)...)
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
func (v *Evidence) punishing() []hypothesis {
	e := v.edges[0]
	by := e.by.Sub(v.first.Sent) + 2*time.Millisecond
	hypothesisOf := func(low, high time.Duration, m Model) hypothesis {
		build := func(n numbers) []Model {
			if m.Limit.Algorithm == store.SlidingCounter {
				return v.counters(m, n.span)
			}
			return v.windows(m, n.span)
		}
		return hypothesis{0, max(time.Millisecond, low), min(high, v.longest), m.IsAligned(), spans, build}
	}
	fromFirst := store.Limit{Algorithm: store.FixedWindow, FromFirst: true}
	counter := store.Limit{Algorithm: store.SlidingCounter}
	return []hypothesis{
		hypothesisOf(by/50, by, Model{Limit: fromFirst, Manner: Manner{Refreshed: true}}),
		hypothesisOf(by/50, by, Model{Limit: store.Limit{Algorithm: store.SlidingLog}, Manner: Manner{ChargesDenied: true}}),
		hypothesisOf(by/50, by, Model{Limit: counter, Manner: Manner{ChargesDenied: true}}),
		hypothesisOf(by/50, by, Model{Limit: counter, Manner: Manner{ChargesDenied: true, RoundsDown: true}}),
		hypothesisOf(by/50, by, Model{Limit: counter, Manner: Manner{ChargesDenied: true, RoundsDown: true, Anchored: true}}),
	}
}

// windows returns the models of a limit for each count that a full one may admit.
func (v *Evidence) windows(m Model, period time.Duration) (models []Model) {
	for _, n := range v.counts {
		m.Limit.Count, m.Limit.Period, m.Limit.Burst = n, period.Truncate(time.Microsecond), n
		if limit, err := m.Limit.Normalize(); err == nil {
			m.Limit = limit
			models = append(models, m)
		}
	}
	return models
}

// alignedWindows returns fixed windows that begin at whole periods since the epoch, or beside
// them where the sharpest edges say so.
func (v *Evidence) alignedWindows(period time.Duration) (models []Model) {
	for _, phase := range v.phases(period) {
		models = append(models, v.windows(Model{Limit: store.Limit{Algorithm: store.FixedWindow}, Phase: phase}, period)...)
	}
	return models
}

// counters returns sliding counters, whose first unit comes back after a window's end by
// the time that one unit takes to fade.
func (v *Evidence) counters(m Model, period time.Duration) (models []Model) {
	if m.Anchored || m.Limit.Slices > 0 {
		return v.windows(m, period)
	}
	for _, phase := range append(v.phases(period), v.fadingPhases(m, period)...) {
		m.Phase = phase
		models = append(models, v.windows(m, period)...)
	}
	return models
}

// buckets returns the families of buckets. A unit comes back at constant intervals.
func (v *Evidence) buckets() []hypothesis {
	low, high := v.gap()
	full := func(gap time.Duration) time.Duration { return time.Duration(v.counts[0]) * gap }
	simple := func(low, high time.Duration, most int) []numbers { return v.simpleRates(low, high, most) }
	exact := hypothesis{0, max(time.Millisecond, full(low)/2), min(v.longest*4, full(high)*2), false, simple, func(n numbers) []Model {
		return v.bucketsOf(n, 0)
	}}
	ticking, thousandths := exact, exact
	ticking.build = func(n numbers) []Model { return v.bucketsOf(n, time.Second) }
	thousandths.build = func(n numbers) []Model {
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
func (v *Evidence) bucketsOf(n numbers, tick time.Duration) (models []Model) {
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
			models = append(models, Model{Limit: limit, Manner: Manner{Tick: tick}})
		}
	}
	return models
}
