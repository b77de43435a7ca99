package probe

import (
	"fmt"

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
		found.add("policy "+l.CountField, "%s says %s, and the limit is %s", l.CountField, seen, e.name())
	}
}

// isLimit reports whether the policy in the fields is the limit, or one that gives the same answers.
func (e *proof) isLimit(l *headers.Limit) bool {
	if e.toldOf(l) != nil {
		return true
	}
	for i := range e.alternatives {
		other, err := e.alternatives[i].Normalize()
		if err == nil && l.Tells(&other) {
			return true
		}
	}
	return false
}
