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

// reported returns what an answer says about the limit of the run; nil if nothing.
func (t *endpointTarget) reported(answer *endpoint.Answer) *interval.Reported {
	if t.limit == nil || len(answer.Header) == 0 && len(answer.Limits) == 0 || answer.Header.Get("Age") != "" {
		return nil
	}
	t.once.Do(func() { t.skew = headers.SkewOf(answer.Header, answer.Sent, answer.Answered) })
	r := headers.Read(answer.Header, answer.Answered, t.skew)
	r.ReadLimits(answer.Limits)
	told := r.About(t.limit)
	if told != nil && !told.Tells(t.limit) {
		if told.Count != headers.NotTold {
			t.other.Store(told)
		}
		told = nil
	}
	reported, said := headers.Reported(told), told != nil
	if answer.Outcome == endpoint.Denied && r.ReportRetry(reported) {
		said = true
	}
	if !said {
		return nil
	}
	return reported
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
