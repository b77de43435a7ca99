package explain

import (
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// simpleRates returns usual ways to write a rate at which the first burst comes back between low and high: the burst
// for a usual period, or any whole number for a very usual one.
func (v *Evidence) simpleRates(low, high time.Duration, most int) (found []numbers) {
	type ranked struct {
		numbers
		rank float64
	}
	var all []ranked
	admitted := float64(v.counts[0])
	fewest, _ := v.burstOf(float64(low)/admitted, 0)
	_, greatest := v.burstOf(float64(high)/admitted, 0)
	bursts := simpleCounts(fewest, greatest, 3)
	for _, burst := range bursts {
		share := float64(burst) / admitted
		for _, p := range simplePeriods(time.Duration(float64(low)*share), time.Duration(float64(high)*share), most) {
			all = append(all, ranked{numbers{time.Duration(float64(p) / share), burst, p}, float64(rankOf(p))})
		}
	}
	for _, unit := range usualPeriods[0].periods {
		fewest := int64(math.Ceil(admitted * float64(unit) / float64(high)))
		greatest := int64(admitted * float64(unit) / float64(low))
		for i, count := range simpleCounts(fewest, min(greatest, store.MaxCount), most) {
			span := time.Duration(float64(unit) * admitted / float64(count))
			if !slices.Contains(bursts, count) {
				all = append(all, ranked{numbers{span, count, unit}, 1.5 + float64(i)*0.3 + float64(len(trimZeros(count)))*0.2})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		switch {
		case a.rank < b.rank:
			return -1
		case a.rank > b.rank:
			return 1
		}
		return 0
	})
	for i := range all {
		alike := func(n numbers) bool {
			return n.count*all[i].period.Microseconds() == all[i].count*n.period.Microseconds()
		}
		if !slices.ContainsFunc(found, alike) && len(found) < most {
			found = append(found, all[i].numbers)
		}
	}
	return found
}

// trimZeros returns the digits of a number without the zeros at its end.
func trimZeros(n int64) (digits []byte) {
	for n > 0 && n%10 == 0 {
		n /= 10
	}
	for ; n > 0; n /= 10 {
		digits = append(digits, byte(n%10))
	}
	return digits
}

// usualPeriods are the periods that people write into limits, the most usual first. The rank says how unusual a
// period is.
var usualPeriods = []struct {
	rank    int
	periods []time.Duration
}{
	{0, []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}},
	{1, []time.Duration{
		10 * time.Second, 30 * time.Second, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		12 * time.Hour, 100 * time.Millisecond,
	}},
	{3, []time.Duration{
		2 * time.Second, 5 * time.Second, 15 * time.Second, 20 * time.Second, 2 * time.Minute, 3 * time.Minute, 20 * time.Minute,
		2 * time.Hour, 6 * time.Hour, 500 * time.Millisecond, 200 * time.Millisecond, 250 * time.Millisecond, 50 * time.Millisecond,
		20 * time.Millisecond, 10 * time.Millisecond, 5 * time.Millisecond,
	}},
}

// steps are the units of other periods, the simplest first.
var steps = []time.Duration{
	time.Hour, time.Minute, 10 * time.Second, time.Second, 100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond,
	100 * time.Microsecond, 10 * time.Microsecond, time.Microsecond,
}

// firstStepRank is the rank of a multiple of the first of the steps.
const firstStepRank = 5

// rankOf returns how unusual a period is; 0 is the most usual.
func rankOf(period time.Duration) int {
	for _, usual := range usualPeriods {
		for _, p := range usual.periods {
			if p == period {
				return usual.rank
			}
		}
	}
	for i, step := range steps {
		if period%step == 0 {
			return firstStepRank + i
		}
	}
	return firstStepRank + len(steps)
}

// simplePeriods returns up to most periods between two, the most usual first.
func simplePeriods(low, high time.Duration, most int) (found []time.Duration) {
	taken := make(map[time.Duration]bool)
	add := func(p time.Duration) {
		if p >= low && p <= high && p > 0 && len(found) < most && !taken[p] {
			found, taken[p] = append(found, p), true
		}
	}
	for _, usual := range usualPeriods {
		for _, p := range usual.periods {
			add(p)
		}
	}
	for _, step := range steps {
		first := (low + step - 1) / step * step
		if int((high-first)/step) > 4*most {
			continue // too fine already
		}
		for p := first; p <= high && len(found) < most; p += step {
			add(p)
		}
	}
	return found
}

// simpleCounts returns up to most whole numbers between two, the roundest first.
func simpleCounts(low, high int64, most int) (found []int64) {
	low = max(low, 1)
	for step := int64(math.Pow10(9)); step >= 1 && len(found) < most; step /= 10 {
		for n := (low + step - 1) / step * step; n <= high && len(found) < most; n += step {
			if n >= low && (step == 1e9 || n%(step*10) != 0) {
				found = append(found, n)
			}
		}
	}
	return found
}

// isRound reports whether a period known to lie between two is almost certainly the right one.
func isRound(period, low, high time.Duration) bool {
	switch rank := rankOf(period); {
	case rank < firstStepRank:
		return high-low <= period/12
	case rank < firstStepRank+len(steps):
		return high-low <= steps[rank-firstStepRank]
	}
	return false
}
