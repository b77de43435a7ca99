package experiment

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// heard is what was heard of limits in answers.
type heard struct {
	once sync.Once
	skew time.Duration // how far the clock of the first answer was ahead
	// other is the last limit that answers were about and that is not the one of the run.
	other atomic.Pointer[headers.Limit]

	mu      sync.Mutex // guards the rest
	wrong   headers.Findings
	retries headers.Retries
	waits   map[int]int64 // answers that count as allowed and have Retry-After, by their status
}

// reported returns what an answer says about the limit of the run; nil if nothing.
func (t *endpointTarget) reported(answer *endpoint.Answer) *interval.Reported {
	if answer.Header.Get("Age") != "" {
		return nil // it belongs to another answer, which a cache kept
	}
	t.once.Do(func() { t.skew = headers.SkewOf(answer.Header, answer.Sent, answer.Answered) })
	r := headers.ReadAnswer(answer, t.skew)
	whole := t.judge(answer, &r)
	if t.limit == nil {
		return nil
	}
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
	reported.Partly = !whole
	return reported
}

// judge notes what is wrong with the fields of an answer, and reports whether all that should be there can be read.
func (h *heard) judge(answer *endpoint.Answer, r *headers.Reading) (whole bool) {
	denied := answer.Outcome == endpoint.Denied
	if !denied && len(r.Problems) == 0 && r.RetryText == "" {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !denied && r.RetryText != "" {
		if h.waits == nil {
			h.waits = map[int]int64{}
		}
		h.waits[answer.Status]++
	}
	for _, problem := range r.Problems {
		h.wrong.AddProblem(problem)
	}
	if !denied {
		return len(r.Problems) == 0
	}
	if h.retries.Add(answer.Status, r); r.RetryProblem != "" {
		h.wrong.AddProblem(r.RetryProblem)
	}
	isMissing := r.RetryAfter == headers.NotTold && answer.Status == http.StatusTooManyRequests
	return len(r.Problems) == 0 && r.RetryProblem == "" && !isMissing
}

// wrongHeaders is what is wrong with the fields of answers, in words.
func (h *heard) wrongHeaders() []string {
	if missing := h.retries.Wrong(); missing != "" {
		h.wrong.Add("missing", 1, "Retry-After is %s", missing)
	}
	return h.wrong.Texts()
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
