// Package decision has decisions as programs see them: the requests, the decisions, and the JSON document of both,
// which the commands print and the server answers.
package decision

import (
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/output"
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
	shared  []bool // nil for none; see IsShared
}

// SetShared notes that decision i is also that of an ask that was made at the same time, and counts there.
func (a *Answer) SetShared(i int) {
	if a.shared == nil {
		a.shared = make([]bool, len(a.Requests))
	}
	a.shared[i] = true
}

// IsShared reports whether decision i counts for another ask.
func (a *Answer) IsShared(i int) bool { return a.shared != nil && a.shared[i] }

// IsOwn reports whether any decision counts for this ask, or there is none.
func (a *Answer) IsOwn() bool { return a.shared == nil || slices.Contains(a.shared, false) }

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
	limit := a.Decisions[i].Override.Apply(a.Requests[i].Limit)
	if at := a.Decisions[i].At; at > 0 {
		return limit.InWindow(at)
	}
	return limit
}

// Under is a request as it is decided under an operator's override, nil for none, and by the share of a fallback store,
// 0 for the whole limit.
func Under(r store.Request, o *store.Override, share store.Share) store.Request {
	if o != nil {
		r.SetLimit(o.Apply(r.Limit))
		if o.Effect == store.OverrideExempt {
			r.Leave = 0
		}
	}
	if share != 0 {
		r.SetLimit(share.Of(r.Limit))
	}
	return r
}

// under is request i as it was decided.
func (a *Answer) under(i int) store.Request {
	return Under(a.Requests[i], a.Decisions[i].Override, a.Decisions[i].LocalShare)
}

// Capacity is how much the limit of decision i allows at once, or the fallback store's share of it.
func (a *Answer) Capacity(i int) int64 {
	r := a.under(i)
	return r.Limit.Capacity()
}

// Leave is how many units of that the request of decision i leaves to others.
func (a *Answer) Leave(i int) int64 { return a.under(i).Leave }

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
	order := store.Summarize(a.Decisions).DeniedBy
	for i := range a.Decisions {
		order = append(order, i)
	}
	for _, i := range order {
		if o := a.Decisions[i].Override; o != nil {
			return NewAppliedOverride(o, a.Requests[i].Limit)
		}
	}
	return nil
}

// Refunded is the most units that one of the limits got back.
func (a *Answer) Refunded() (units int64) {
	for i := range a.Decisions {
		units = max(units, a.Decisions[i].Refunded)
	}
	return units
}

// Room says how much of a limit of that capacity is used, remains and is left to others, and the waiting times.
func Room(d *store.Summary, capacity, leave int64) string {
	text := fmt.Sprintf("%d of %d used, %d remaining", d.Used, capacity, d.Remaining)
	if leave > 0 {
		text += fmt.Sprintf(", %d left to others", leave)
	}
	return text + Times(d)
}

// Times writes the waiting times that are not zero, each after a comma.
func Times(d *store.Summary) (text string) {
	for _, wait := range []struct {
		until string
		time  time.Duration
	}{{"retry", d.RetryAfter}, {"its turn", d.Delay}, {"resets", d.ResetAfter}} {
		if wait.time > 0 {
			text += ", " + wait.until + " in " + output.Duration(wait.time)
		}
	}
	return text
}
