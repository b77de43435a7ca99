// Package decision has decisions as programs see them: the requests, the decisions, and the JSON document of both,
// which the commands print and the server answers.
package decision

import (
	"fmt"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Answer is the requests to a store and the decisions on them.
type Answer struct {
	// Key is the subject as the caller wrote it: a subject, or attributes.
	Key string
	// Policy is the policy of the requests, or nil. Overrides are the indexes of the policy's overrides that apply,
	// or -1.
	Policy    *policy.Policy
	Requests  []store.Request
	Overrides []int
	Decisions []store.Decision
	// Charges: the answer has granted units.
	Charges bool
}

// OwnCosts reports whether the limits can have different costs, so that their remaining units cannot be compared.
func (a *Answer) OwnCosts() bool { return a.Policy != nil && a.Policy.HasOwnCosts() }

// LimitName returns the name of limit i.
func (a *Answer) LimitName(i int) string {
	if a.Policy != nil {
		return a.Policy.Limits[i].Name
	}
	return a.Requests[i].Key.Name
}

// Effective is the limit of decision i: the limit of the request, perhaps changed by an operator's override.
func (a *Answer) Effective(i int) store.Limit {
	return a.Decisions[i].Override.Apply(a.Requests[i].Limit)
}

// Capacity is how much the limit of decision i allows at once, or the fallback store's share of it.
func (a *Answer) Capacity(i int) int64 {
	if share := a.Decisions[i].LocalShare; share != 0 {
		return share.Of(a.Effective(i)).Capacity()
	}
	return a.Effective(i).Capacity()
}

// localShare is the fallback store's share of each limit, zero if it did not decide. One call has one share for all
// of its limits.
func (a *Answer) localShare() store.Share {
	for i := range a.Decisions {
		if share := a.Decisions[i].LocalShare; share != 0 {
			return share
		}
	}
	return 0
}

// DeniedBy names the limits that denied.
func (a *Answer) DeniedBy() []string {
	var names []string
	for _, i := range store.Summarize(a.Decisions).DeniedBy {
		names = append(names, a.LimitName(i))
	}
	return names
}

// Applied is the override to name for the whole answer: that of the first limit that denied, otherwise of the first
// limit that has one; nil if there is none.
func (a *Answer) Applied() *AppliedOverride {
	first := -1
	for _, i := range store.Summarize(a.Decisions).DeniedBy {
		if a.Decisions[i].Override != nil {
			first = i
			break
		}
	}
	for i := range a.Decisions {
		if first < 0 && a.Decisions[i].Override != nil {
			first = i
		}
	}
	if first < 0 {
		return nil
	}
	return NewAppliedOverride(a.Decisions[first].Override, a.Requests[first].Limit)
}

// Refunded is the most units that one of the limits got back.
func (a *Answer) Refunded() (units int64) {
	for i := range a.Decisions {
		units = max(units, a.Decisions[i].Refunded)
	}
	return units
}

// Room says how much of a limit of that capacity is used and remains, and the waiting times.
func Room(d *store.Summary, capacity int64) string {
	return fmt.Sprintf("%d of %d used, %d remaining%s", d.Used, capacity, d.Remaining, Times(d))
}

// Times writes the waiting times that are not zero, each after a comma.
func Times(d *store.Summary) string {
	text := ""
	if d.RetryAfter > 0 {
		text += ", retry in " + output.Duration(d.RetryAfter)
	}
	if d.Delay > 0 {
		text += ", its turn in " + output.Duration(d.Delay)
	}
	if d.ResetAfter > 0 {
		text += ", resets in " + output.Duration(d.ResetAfter)
	}
	return text
}
