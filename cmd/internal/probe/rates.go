package probe

import (
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// simpleRates returns usual ways to write a rate at which what the first burst admitted takes
// between low and high to come back: the burst for a usual period, or any whole number for
// a very usual one.
func (v *evidence) simpleRates(low, high time.Duration, most int) (found []numbers) {
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
