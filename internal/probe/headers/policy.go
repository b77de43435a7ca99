package headers

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// Reported is what an answer says about a limit, for an audit; told is nil if it says nothing.
func Reported(told *Limit) *interval.Reported {
	r := &interval.Reported{Remaining: interval.NotReported, RetryAfter: interval.NotReported, ResetAfter: interval.NotReported}
	if told == nil {
		return r
	}
	if r.Remaining = told.Remaining; told.HasReset {
		r.ResetAfter, r.ResetWithin = told.Reset, told.ResetWithin
	}
	return r
}

// ReportRetry adds the wait of a denial to what an answer says, for an audit. It reports whether there is one.
func (r *Reading) ReportRetry(to *interval.Reported) bool {
	if r.RetryAfter == NotTold {
		return false
	}
	to.RetryAfter, to.RetryWithin = r.RetryAfter, r.RetryWithin
	return true
}

// About returns what the newest dialect that tells anything says about a limit: of several limits the one that is like it,
// or else the tightest; nil if none is said.
func (r *Reading) About(limit *store.Limit) *Limit {
	for i := range r.Families {
		if told := r.Families[i].About(limit); told != nil {
			return told
		}
	}
	return nil
}

// About returns the one of several limits with a window that is like the one in question, or else the tightest. It is nil
// if none is about requests.
func (f *Family) About(limit *store.Limit) *Limit {
	var units []*Limit
	for i := range f.Limits {
		if f.Limits[i].Unit == "" {
			units = append(units, &f.Limits[i])
		}
	}
	if len(units) == 1 {
		return units[0]
	}
	for _, l := range units {
		if l.Window != NotTold && l.Tells(limit) {
			return l
		}
	}
	if tightest := f.Tightest(); tightest != nil && tightest.Unit == "" {
		return tightest
	}
	return nil
}

// Tells reports whether the policy in the fields can be that of a limit, which must be normalized.
func (l *Limit) Tells(limit *store.Limit) bool {
	told := l
	if told.Window == NotTold {
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
