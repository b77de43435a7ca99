package experiment

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// heard is what was heard of limits in answers.
type heard struct {
	once sync.Once
	skew time.Duration // how far the clock of the first answer was ahead
	// other is the last limit that answers were about and that is not the one of the run.
	other atomic.Pointer[headers.Limit]
}

// farClock is by how much an instant of the endpoint's clock may be off: it has whole seconds, and so has the field Date
// by which that clock is known.
const farClock = 3 * time.Second

// reported returns what an answer says about the limit of the run; nil if nothing.
func (t *endpointTarget) reported(answer *endpoint.Answer) *interval.Reported {
	if t.limit == nil || len(answer.Header) == 0 && len(answer.Limits) == 0 || answer.Header.Get("Age") != "" {
		return nil
	}
	t.once.Do(func() { t.skew = headers.SkewOf(answer.Header, answer.Sent, answer.Answered) })
	r := headers.Read(answer.Header, answer.Answered, t.skew)
	r.ReadLimits(answer.Limits)
	reported := interval.Reported{
		Remaining: interval.NotReported, RetryAfter: interval.NotReported, ResetAfter: interval.NotReported,
	}
	said := r.RetryAfter != headers.NotTold && answer.Outcome == endpoint.Denied
	if said {
		if reported.RetryAfter = r.RetryAfter; r.RetryDate {
			reported.RetryWithin = farClock
		}
	}
	dialect, told := r.About(t.limit)
	switch {
	case told == nil:
	case !told.Tells(t.limit):
		if told.Count != headers.NotTold {
			t.other.Store(told)
		}
	default:
		said, reported.Remaining = true, told.Remaining
		if told.HasReset {
			if reported.ResetAfter = told.Reset; dialect == headers.DialectXUnix || dialect == headers.DialectGitHub {
				reported.ResetWithin = farClock
			}
		}
	}
	if !said {
		return nil
	}
	return &reported
}

// otherLimit warns that answers were about another limit, whose figures were not audited; empty if none was.
func (h *heard) otherLimit() string {
	told := h.other.Load()
	if told == nil {
		return ""
	}
	text := fmt.Sprint(told.Count)
	if told.Window != headers.NotTold {
		text += " in " + store.FormatPeriod(told.Window)
	}
	return fmt.Sprintf("%s says %s, which is not the limit of this run, so what remains of it was not audited", told.CountField, text)
}
