package httplimit

import (
	"context"
	"fmt"
	"net/http"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// Outcome is what was decided of a request. Do not change it.
type Outcome struct {
	Policy *policy.Policy
	// Requests are what was asked of the store: one for each limit of the policy. What turns out not
	// to be owed can be given back with them, such as those of a login that succeeded.
	Requests []limiter.Request
	// Decisions are the answers, in the same order.
	Decisions []limiter.Decision

	names  []string
	status int
}

type outcomeKey struct{}

// OutcomeOf returns what was decided of the request whose context ctx is; nil if nothing was.
// Of several middlewares around each other it is that of the innermost.
func OutcomeOf(ctx context.Context) *Outcome {
	o, _ := ctx.Value(outcomeKey{}).(*Outcome)
	return o
}

// Summary sums up the decisions.
func (o *Outcome) Summary() limiter.Summary { return limiter.Summarize(o.Decisions) }

// WriteDenial answers with the status of a denial, and a problem of RFC 9457 as its body: that a
// quota is exceeded and of which limits, or, if a failure policy turned the request away because the
// store is away, that there is less capacity for now.
func (o *Outcome) WriteDenial(w http.ResponseWriter) {
	sum := o.Summary()
	var deniedBy []string
	for _, i := range sum.DeniedBy {
		deniedBy = append(deniedBy, o.names[i])
	}
	problem := Denial(o.status, deniedBy)
	if len(deniedBy) > 0 && sum.RetryAfter > 0 {
		problem.Detail = fmt.Sprintf("The same request is allowed in %d s, if nothing else is asked until then.",
			wholeSeconds(sum.RetryAfter))
	}
	problem.Write(w)
}
