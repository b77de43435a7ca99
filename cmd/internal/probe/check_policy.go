package probe

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// policyTrue finds a count and a window that are not those of the limit.
func (e *proof) policyTrue(answers []toldAnswer, found *findings) {
	if !e.exact {
		return
	}
	for i := range answers {
		l := answers[i].told
		if l.count == notTold || e.isLimit(l) {
			continue
		}
		seen := fmt.Sprint(l.count)
		if l.window != notTold {
			seen += " in " + store.FormatPeriod(l.window)
		}
		found.add("policy "+l.countField, "%s tells %s, and the limit is %s", l.countField, seen, e.model.limit)
	}
}

// isLimit reports whether the policy that is told is the limit, or one that answers alike.
func (e *proof) isLimit(l *toldLimit) bool {
	if tells(l, &e.model.limit) {
		return true
	}
	for i := range e.alternatives {
		other, err := e.alternatives[i].Normalize()
		if err == nil && tells(l, &other) {
			return true
		}
	}
	return false
}

// tells reports whether a policy that is told is of a limit.
func tells(told *toldLimit, limit *store.Limit) bool {
	if told.window == notTold {
		return told.count == limit.Count || told.count == limit.Capacity()
	}
	window := max(time.Second, (limit.Period+time.Second-1)/time.Second*time.Second) // headers have whole seconds
	if told.window == window && told.count == limit.Count {
		return true
	}
	if limit.Period < time.Second && told.window == time.Second {
		return told.count == limit.Count*int64(time.Second)/int64(limit.Period)
	}
	if !limit.Algorithm.HasBurst() {
		return false
	}
	// A bucket has a rate, which can be told in many ways.
	return sameRate(told.count, told.window, limit.Count, limit.Period)
}

// sameRate reports whether two rates are the same. A window that was rounded up to a whole second makes
// the rate that is told a little lower.
func sameRate(count int64, window time.Duration, otherCount int64, otherPeriod time.Duration) bool {
	const exactly = 1e-9
	truly := float64(otherCount) / otherPeriod.Seconds()
	least, most := float64(count)/window.Seconds(), float64(count)/window.Seconds()
	if otherPeriod%time.Second != 0 && window > time.Second {
		most = float64(count) / (window - time.Second).Seconds()
	}
	return truly >= least*(1-exactly) && truly <= most*(1+exactly)
}
