package probe

import (
	"net/http"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
)

// dialectRLS is the statuses of Envoy's rate limit service: current_limit, limit_remaining and
// duration_until_reset.
const dialectRLS = "envoy-rls"

// isHTTP reports whether an answer has a status of HTTP. The others are of a rate limit service.
func isHTTP(event *Event) bool { return event.Status >= http.StatusContinue }

// readStatuses reads what a rate limit service tells of its limits beside the header.
func (r *fieldReading) readStatuses(told []endpoint.ToldLimit) {
	var limits []toldLimit
	for i := range told {
		l := toldLimit{
			name: told[i].Name, count: told[i].Count, remaining: told[i].Remaining, window: notTold,
			countField: "current_limit", leftField: "limit_remaining", resetField: "duration_until_reset",
			reset: told[i].ResetAfter, hasReset: told[i].ResetKnown,
		}
		if told[i].Period > 0 {
			l.window = told[i].Period
		}
		limits = append(limits, l)
	}
	r.add(dialectRLS, limits)
}
