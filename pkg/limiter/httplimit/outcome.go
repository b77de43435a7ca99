package httplimit

import (
	"context"
	"fmt"
	"net/http"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Outcome is what was decided of a request.
type Outcome struct {
	requests  []store.Request
	decisions []store.Decision
	names     []string
	status    int
}

// Requests are what was asked: one for each limit. What turns out not to be owed can be given back with them, such as
// those of a login that succeeded.
func (o *Outcome) Requests() []limiter.Request {
	if o == nil {
		return nil
	}
	requests := make([]limiter.Request, len(o.requests))
	for i := range o.requests {
		requests[i] = limiter.RequestOf(o.requests[i])
	}
	return requests
}

// Decisions are the answers, in the same order.
func (o *Outcome) Decisions() limiter.Decisions {
	if o == nil {
		return limiter.Decisions{}
	}
	return limiter.DecisionsOf(o.decisions)
}

type outcomeKey struct{}

// OutcomeOf returns what was decided of the request whose context ctx is. It is nil if the request is not limited; its
// methods say then that nothing was asked. Of several middlewares around each other it is that of the innermost.
func OutcomeOf(ctx context.Context) *Outcome {
	o, _ := ctx.Value(outcomeKey{}).(*Outcome)
	return o
}

// WriteDenial answers with the status of a denial, and a problem of RFC 9457 as its body: that a
// quota is exceeded and of which limits, or, if a failure policy turned the request away because the
// store is away, that there is less capacity for now.
func (o *Outcome) WriteDenial(w http.ResponseWriter) {
	sum := store.Summarize(o.decisions)
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
