package probe

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// policyTrue finds a count and a window that are not those of the limit.
func (e *proof) policyTrue(answers []toldAnswer, found *findings) {
	if !e.exact {
		return
	}
	for i := range answers {
		l := answers[i].told
		if l.Count == headers.NotTold || e.isLimit(l) {
			continue
		}
		seen := fmt.Sprint(l.Count)
		if l.Window != headers.NotTold {
			seen += " in " + store.FormatPeriod(l.Window)
		}
		found.add("policy "+l.CountField, "%s says %s, and the limit is %s", l.CountField, seen, e.model.Limit)
	}
}

// isLimit reports whether the policy in the fields is the limit, or one that gives the same answers.
func (e *proof) isLimit(l *headers.Limit) bool {
	if tells(l, &e.model.Limit) {
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

// tells reports whether the policy in the fields can be that of a limit.
func tells(told *headers.Limit, limit *store.Limit) bool {
	if told.Window == headers.NotTold {
		return told.Count == limit.Count || told.Count == limit.Capacity()
	}
	window := max(time.Second, (limit.Period+time.Second-1)/time.Second*time.Second) // headers have whole seconds
	if told.Window == window && told.Count == limit.Count {
		return true
	}
	if limit.Period < time.Second && told.Window == time.Second {
		return told.Count == limit.Count*int64(time.Second)/int64(limit.Period)
	}
	if !limit.Algorithm.HasBurst() {
		return false
	}
	// The rate of a bucket can be written in many ways.
	return sameRate(told.Count, told.Window, limit.Count, limit.Period)
}

// sameRate reports whether two rates are the same. If a window was rounded up to a whole second, the rate in the
// fields is a little too low.
func sameRate(count int64, window time.Duration, otherCount int64, otherPeriod time.Duration) bool {
	const exactly = 1e-9
	truly := float64(otherCount) / otherPeriod.Seconds()
	least, most := float64(count)/window.Seconds(), float64(count)/window.Seconds()
	if otherPeriod%time.Second != 0 && window > time.Second {
		most = float64(count) / (window - time.Second).Seconds()
	}
	return truly >= least*(1-exactly) && truly <= most*(1+exactly)
}
