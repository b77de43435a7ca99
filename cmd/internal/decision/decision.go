// Package decision is a decision as programs see it: what was asked, what was decided of it,
// and the JSON document of both, which the commands print and the server answers.
package decision

import (
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Answer is what was asked of a store and what was decided of it.
type Answer struct {
	// Key is who is limited, as it was asked: a subject, or attributes.
	Key string
	// Policy is the policy that the requests are of, or nil. Overrides are the indices of the
	// policy's overrides that the limits come from, or -1.
	Policy    *policy.Policy
	Requests  []store.Request
	Overrides []int
	Decisions []store.Decision
	// Charges: the answer tells what was granted.
	Charges bool
}

// OwnCosts reports whether the limits can have been asked for different numbers of units, so that what is left of them
// cannot be compared.
func (a *Answer) OwnCosts() bool { return a.Policy != nil && a.Policy.HasOwnCosts() }

// LimitName is what to call the i-th limit.
func (a *Answer) LimitName(i int) string {
	if a.Policy != nil {
		return a.Policy.Limits[i].Name
	}
	return a.Requests[i].Key.Name
}

// Effective is the limit that the i-th decision was made by: the one that was asked, as an
// operator's override may have changed it.
func (a *Answer) Effective(i int) store.Limit {
	limit := a.Requests[i].Limit
	if o := a.Decisions[i].Override; o != nil {
		limit = o.Apply(limit)
	}
	return limit
}

// Capacity is how much the limit of the i-th decision allows at once, or the local shadow's
// share of it.
func (a *Answer) Capacity(i int) int64 {
	if share := a.Decisions[i].LocalShare; share != 0 {
		return share.Of(a.Effective(i)).Capacity()
	}
	return a.Effective(i).Capacity()
}

// localShare is what a local shadow had of each limit, zero if none decided. One call has one
// share for all of its limits.
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

// Applied is the override to name for the whole answer: that of the first limit that denied,
// else of the first limit that has one; nil if there is none.
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
