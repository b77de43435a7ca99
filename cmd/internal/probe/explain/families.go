package explain

import (
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// numbers are those of a limit of a given kind. A count of 0 stands for what the first burst admitted.
type numbers struct {
	span   time.Duration // the period, or the time that a bucket's whole burst takes to come back
	count  int64
	period time.Duration
}

// family tells a family of models from others: a model without numbers of its own, and the units of a refill of fewer than all.
type family struct {
	like  Model
	units int64
}

// hypothesis is a family of models, and a range for its period.
type hypothesis struct {
	family    family
	low, high time.Duration
	// aligned: windows begin at instants that do not depend on requests.
	aligned bool
	// simple returns the usual numbers between two spans, the most usual first.
	simple func(low, high time.Duration, most int) []numbers
	// build returns the models with these numbers. Their other numbers follow from what was seen.
	build func(n numbers) []Model
}

func spans(low, high time.Duration, most int) (all []numbers) {
	for _, p := range simplePeriods(low, high, most) {
		all = append(all, numbers{span: p})
	}
	return all
}

// family returns the models like m with other numbers, and with a period in a range.
func (v *Evidence) family(low, high time.Duration, m Model) hypothesis {
	build := func(n numbers) []Model { return v.models(m, n.span) }
	aligned := m.IsAligned() && m.Limit.Slices == 0
	return hypothesis{family{like: m}, max(time.Millisecond, low), min(high, v.longest), aligned, spans, build}
}

// hypotheses returns all families that could explain the evidence.
func (v *Evidence) hypotheses() (all []hypothesis) {
	fixed, fromFirst := store.Limit{Algorithm: store.FixedWindow}, store.Limit{Algorithm: store.FixedWindow, FromFirst: true}
	log, counter := store.Limit{Algorithm: store.SlidingLog}, store.Limit{Algorithm: store.SlidingCounter}
	add := func(low, high time.Duration, limit store.Limit, by Behaviour) {
		all = append(all, v.family(low, high, Model{Limit: limit, Behaviour: by}))
	}
	e := v.edges[0]
	after, by := e.after.Sub(v.first.Answered)-2*time.Millisecond, e.by.Sub(v.first.Sent)+2*time.Millisecond
	all = append(all, v.buckets()...)
	add(after, by, fromFirst, Behaviour{})
	add(after, by, log, Behaviour{})
	all = append(all, v.refilled(after, by)...)
	alignedLow, alignedHigh := v.alignedPeriod()
	add(alignedLow, alignedHigh, fixed, Behaviour{})
	low, high := v.gap()
	n := time.Duration(v.counts[0])
	for _, behaviour := range []Behaviour{{}, {Anchored: true, RoundsDown: true}, {RoundsDown: true}, {RoundsNearest: true}} {
		// The whole first burst counts for at most one period, and one unit of it leaves after another nth.
		add(max(n*low/2, after*4/9), max(n*high*2, by), counter, behaviour)
	}
	for _, slices := range []int64{2, 3, 4, 5, 6, 8, 10, 12, 20, 24, 30, 60, 100} {
		if time.Duration(slices)*low > 2*by {
			break
		}
		sliced := store.Limit{Algorithm: store.SlidingCounter, Slices: slices}
		add(after*9/10-2*time.Millisecond, by+by/time.Duration(slices)*2, sliced, Behaviour{})
	}
	// Limits that count denied requests.
	add(by/50, by, fromFirst, Behaviour{Refreshed: true})
	add(by/50, by, log, Behaviour{ChargesDenied: true})
	add(by/50, by, counter, Behaviour{ChargesDenied: true})
	add(by/50, by, counter, Behaviour{ChargesDenied: true, RoundsDown: true})
	add(by/50, by, counter, Behaviour{ChargesDenied: true, RoundsDown: true, Anchored: true})
	return append(all, v.banning()...)
}

// refilled returns the families of buckets that get units at intervals since the first request: all of them, or as many
// as were admitted between two recoveries.
func (v *Evidence) refilled(low, high time.Duration) (all []hypothesis) {
	full := store.Limit{Algorithm: store.TokenBucket, Refill: 1}
	all = append(all, v.family(low, high, Model{Limit: full}))
	for i := 1; i < len(v.edges); i++ {
		units := int64(v.edges[i].between)
		if units < 2 || units >= v.counts[0] {
			continue
		}
		part := v.family(low, high, Model{Limit: full})
		part.family.units = units
		part.build = func(n numbers) (models []Model) {
			period := n.span.Truncate(time.Microsecond)
			for _, burst := range v.counts {
				limit := store.Limit{Algorithm: store.TokenBucket, Count: units, Period: period, Burst: burst, Refill: period}
				if limit, err := limit.Normalize(); err == nil {
					models = append(models, Model{Limit: limit})
				}
			}
			return models
		}
		return append(all, part)
	}
	return all
}

// banning returns the families that deny everything for a fixed time after a denial. That time can be seen. The
// period of the limit cannot, so the usual shorter ones are tried; requests without a denial tell them apart.
func (v *Evidence) banning() (all []hypothesis) {
	denied := slices.IndexFunc(v.h[0], func(o observation) bool { return o.outcome == endpoint.Denied })
	first, e := &v.h[0][denied], v.edges[0]
	low, high := e.after.Sub(first.answered.Time())-2*time.Millisecond, e.by.Sub(first.sent.Time())+2*time.Millisecond
	const some = time.Duration(1) // each model has its own
	for _, limit := range []store.Limit{
		{Algorithm: store.FixedWindow, FromFirst: true}, {Algorithm: store.SlidingLog}, {Algorithm: store.TokenBucket},
		{Algorithm: store.FixedWindow},
	} {
		build := func(n numbers) (models []Model) {
			for _, period := range simplePeriods(max(v.last.Answered.Sub(v.first.Sent), n.span/1000), n.span, mostBanned) {
				ban := Behaviour{Ban: n.span.Truncate(time.Microsecond)}
				models = append(models, v.windows(Model{Limit: limit, Behaviour: ban}, period)...)
			}
			return models
		}
		all = append(all, hypothesis{family{like: Model{Limit: limit, Behaviour: Behaviour{Ban: some}}}, max(time.Millisecond, low),
			min(high, v.longest), false, spans, build})
	}
	return all
}

// mostBanned is the most periods that are tried for a limit that bans.
const mostBanned = 12

// windows returns the models of a limit for each count that a full one may admit.
func (v *Evidence) windows(m Model, period time.Duration) (models []Model) {
	for _, n := range v.counts {
		m.Limit.Count, m.Limit.Period, m.Limit.Burst = n, period.Truncate(time.Microsecond), n
		if m.Limit.Refill != 0 {
			m.Limit.Refill = m.Limit.Period
		}
		if limit, err := m.Limit.Normalize(); err == nil {
			m.Limit = limit
			models = append(models, m)
		}
	}
	return models
}

// models returns the models like m with a period. Windows that do not begin with a request begin at whole periods
// since the epoch, or beside them if the sharpest edges say so. The first unit of a sliding counter comes back after
// a window's end, by the time that one unit takes to fade.
func (v *Evidence) models(m Model, period time.Duration) (models []Model) {
	if s := time.Duration(m.Limit.Slices); s > 0 {
		return v.windows(m, period-period%(s*time.Microsecond))
	}
	if !m.IsAligned() {
		return v.windows(m, period)
	}
	phases := v.phases(period)
	if m.Limit.Algorithm == store.SlidingCounter {
		phases = append(phases, v.fadingPhases(m, period)...)
	}
	for _, m.Phase = range phases {
		models = append(models, v.windows(m, period)...)
	}
	return models
}

// buckets returns the families of buckets. Units come back at constant intervals.
func (v *Evidence) buckets() []hypothesis {
	low, high := v.gap()
	full := func(gap time.Duration) time.Duration { return time.Duration(v.counts[0]) * gap }
	simple := func(low, high time.Duration, most int) []numbers { return v.simpleRates(low, high, most) }
	like := Model{Limit: store.Limit{Algorithm: store.TokenBucket}}
	exact := hypothesis{family{like: like}, max(time.Millisecond, full(low)/2), min(v.longest*4, full(high)*2), false, simple,
		func(n numbers) []Model { return v.bucketsOf(n, 0) }}
	ticking, thousandths := exact, exact
	ticking.family.like.Tick, thousandths.family.like.Thousandths = time.Second, true
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

// bucketsOf returns buckets of a rate. They hold what the first burst admitted, less what came back meanwhile.
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
			models = append(models, Model{Limit: limit, Behaviour: Behaviour{Tick: tick}})
		}
	}
	return models
}
