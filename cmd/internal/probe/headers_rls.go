package probe

import (
	"fmt"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
)

// dialectRLS is what Envoy's rate limit services tell in their answers' statuses.
const dialectRLS = "rls"

// readLimits reads what a rate limit service told besides the header.
func (r *fieldReading) readLimits(told []endpoint.ToldLimit) {
	var limits []toldLimit
	for i := range told {
		t := &told[i]
		if i == mostLimits {
			r.problem("the answer tells of %d limits", len(told))
			break
		}
		where := "status"
		if len(told) > 1 {
			where = fmt.Sprintf("status %d", t.Descriptor+1)
		}
		limit := toldLimit{name: t.Name, count: notTold, window: notTold, remaining: t.Remaining,
			countField: where + " current_limit", leftField: where + " limit_remaining", resetField: where + " duration_until_reset"}
		if t.Count > 0 {
			limit.count = t.Count
		}
		if t.Period > 0 {
			limit.window = t.Period
		}
		if t.ResetKnown {
			limit.reset, limit.hasReset = min(max(0, t.ResetAfter), longestWait), true
		}
		limits = append(limits, limit)
	}
	r.add(dialectRLS, limits)
}
