package probe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// mostFindings is the most findings about headers in one line.
const mostFindings = 4

// headers checks the fields about limits, without Retry-After. dialects are those that were seen.
func (e *proof) headers(dialects []string) (c Check) {
	c = Check{Name: checkHeaders, Verdict: Unknown, Seen: "no field is about a limit",
		Expected: "fields that can be read, agree and are true of " + e.limit.String()}
	var found headers.Findings
	told := 0
	for i := range e.events {
		r := e.readings[&e.events[i]]
		if len(r.Limits) > 0 {
			told++
		}
		for _, problem := range r.Problems {
			found.AddProblem(problem)
		}
	}
	held := slices.DeleteFunc(slices.Clone(dialects), func(dialect string) bool { return !e.truth(dialect, &found) })
	on := " on " + output.Count(told, "answer")
	seen := strings.Join(dialects, " and ") + on
	switch texts := found.Texts; {
	case len(texts) > mostFindings:
		return failed(c, fmt.Sprintf("%s; and %d more", strings.Join(texts[:mostFindings], "; "),
			len(texts)-mostFindings))
	case len(texts) > 0:
		return failed(c, strings.Join(texts, "; "))
	case told == 0:
		c.Moot = len(e.events) > 0
	case !e.isKept():
		c.Seen = seen + "; it is not known whether they are true, since the limit is not kept"
	case len(held) == 0:
		c.Seen = seen + "; none says of which limit, so it is not known whether they are true"
	default:
		c.Verdict, c.Seen = Pass, strings.Join(held, " and ")+on+", and true"
	}
	return c
}

// truth compares what the fields of a dialect say with what can be true of the limit. Of a limit that is not kept
// nothing is known but its policy. It reports whether any field is of that limit.
func (e *proof) truth(dialect string, found *headers.Findings) bool {
	var first *headers.Limit
	within := time.Duration(0)
	finding := e.audit(&e.limit, e.keys, func(event *Event) *interval.Reported {
		r := e.readings[event]
		l := r.About(&e.limit, dialect)
		if l == nil {
			return nil
		}
		if !l.Tells(&e.limit) {
			if l.Count != headers.NotTold {
				found.Add("policy "+l.CountField, "%s, and the limit is %s", l.Text(), e.limit)
			}
			return nil
		}
		if first == nil {
			first = l
		}
		within = max(within, l.ResetWithin)
		return r.Reported(l, false)
	}).Finding()
	if first == nil || !e.isKept() {
		return first != nil
	}
	if lie := &finding.Lies[audit.Remaining]; lie.Answers > 0 {
		found.Add(first.LeftField, "%s is %d, and from %d to %d can be left", first.LeftField, lie.Reported, lie.True,
			lie.TrueMost)
	}
	if lie := &finding.Lies[audit.ResetAfter]; lie.Answers > 0 {
		found.Add(first.ResetField, "%s says %s, and more or all is back after %s to %s%s", first.ResetField,
			span(time.Duration(lie.Reported)), span(time.Duration(lie.True)), span(time.Duration(lie.TrueMost)),
			clocks(within))
	}
	return true
}

// clocks says that a time was taken from another clock, which may differ by so much.
func clocks(within time.Duration) string {
	if within == 0 {
		return ""
	}
	return fmt.Sprintf(", also if the clocks differ by %s", span(within))
}
