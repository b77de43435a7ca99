package store

import (
	"slices"
	"time"
)

// Decider is what made a decision.
type Decider uint8

const (
	// DecidedByStore: the store decided by the limit itself.
	DecidedByStore Decider = iota
	// DecidedByLocal: the store was away, and a share of the limit was decided locally.
	DecidedByLocal
	// DecidedByDenialMemory: the store denied the same before, and only an operator can change that.
	DecidedByDenialMemory
	// DecidedByLease: the units came from a lease, taken from the store in advance.
	DecidedByLease
	// DecidedByOverride: an override of an operator decided instead of the limit.
	DecidedByOverride
	// DecidedByFailurePolicy: the store was away, and the failure policy allowed or denied everything.
	DecidedByFailurePolicy
)

// String returns the decider's word in machine formats, such as "denial-memory".
func (d Decider) String() string {
	return [...]string{"store", "local", "denial-memory", "lease", "override", "failure-policy"}[d]
}

// Decision is the answer to one request. Used, Remaining and ResetAfter describe the key as the call leaves it.
type Decision struct {
	// Allowed: the request fits its limit. A call of several requests charges nothing unless every decision is
	// Allowed, except those of shadow limits. A refund is always allowed, unless it has a NotAfter and comes late.
	Allowed bool
	// Shadow: the limit of the request is a shadow limit, so this decision does not count.
	Shadow bool
	// Used is the units in use, rounded up to whole ones. It can exceed the capacity after a limit was lowered.
	Used int64
	// Granted is the number of units that the call charged: the cost of an allowed take, what fit of a TakeUpTo, the
	// real cost of a Settle. It is zero if the call charged nothing.
	Granted int64
	// Refunded is what a Refund gave back: its cost, or what its token charged, or what was in use if that is less.
	Refunded int64
	// Repeated: the token was known, so this call charged nothing, and Granted is what the first call charged.
	Repeated bool
	// Remaining is the largest cost that would be allowed now to one who leaves as much; one more would be denied.
	Remaining int64
	// RetryAfter is the time until the same request is allowed if nobody else takes, exact to the microsecond. It is
	// zero if Allowed, for a shadow limit that the cost never fits, and for a late refund.
	RetryAfter time.Duration
	// ResetAfter is the time until the key is unused, if nobody takes.
	ResetAfter time.Duration
	// Delay is the time that an allowed request of a leaky bucket should wait for its turn; else zero.
	Delay time.Duration
	// At is the instant of the decision by the store's clock (in a Cluster, its master's), from which the durations
	// count.
	At Instant
	// Unguarded: the limit did not make this decision: a failure policy made it, since the store was away, or nobody
	// did, since another limit had already denied the call. The fields for usage and times are zero then.
	Unguarded bool
	// DecidedBy says who made the decision: the store, or one of its wrappers.
	DecidedBy Decider
	// LocalShare is the share of the limit that applied, if DecidedBy is [DecidedByLocal]; otherwise it is zero.
	LocalShare Share
	// Override is the override that applied, or nil. It is shared, and must not be changed.
	Override *Override
}

// AllAllowed reports whether the call took effect: every decision is allowed, except those of shadow limits. It is
// false without decisions, so that an ignored error allows nothing.
func AllAllowed(decisions []Decision) bool {
	for i := range decisions {
		if !decisions[i].Allowed && !decisions[i].Shadow {
			return false
		}
	}
	return len(decisions) > 0
}

// Summary is the answer to a caller who wants all limits of a call together.
type Summary struct {
	// Allowed: the call took effect, or would. It is [AllAllowed].
	Allowed bool
	// Unguarded: no store decided any part of it; see [Decision.Unguarded].
	Unguarded bool
	// Used is the usage of the first limit that counts, in whole units.
	Used int64
	// Remaining is the least of the limits: the largest cost of a next call.
	Remaining int64
	// RetryAfter, ResetAfter and Delay are the greatest of the limits.
	RetryAfter, ResetAfter, Delay time.Duration
	// DecidedBy is that of the first denial, else of the first decision that the store did not make, else the store.
	DecidedBy Decider
	// Granted is the least that the call charged to a limit. Repeated: an earlier call did; see [Decision.Repeated].
	Granted  int64
	Repeated bool
	// DeniedBy are the indices of the decisions that denied, in their order.
	DeniedBy []int
}

// Summarize sums up the decisions of one call. Shadow limits count only if there are no others, and deny nothing. A
// decision that was not made, as another limit had denied, does not count. No decisions are a denial.
func Summarize(decisions []Decision) Summary {
	if len(decisions) == 0 {
		return Summary{}
	}
	onlyShadows := !slices.ContainsFunc(decisions, func(d Decision) bool { return !d.Shadow })
	sum := Summary{Allowed: AllAllowed(decisions), Unguarded: true}
	for i := range decisions {
		sum.Unguarded = sum.Unguarded && (decisions[i].Unguarded || decisions[i].Shadow && !onlyShadows)
	}
	first := true
	for i := range decisions {
		d := &decisions[i]
		if !onlyShadows && (d.Shadow || d.Unguarded && !sum.Unguarded) {
			continue
		}
		if first {
			sum.Used, sum.Remaining, sum.Granted, sum.Repeated, first = d.Used, d.Remaining, d.Granted, d.Repeated,
				false
		}
		sum.Granted, sum.Repeated = min(sum.Granted, d.Granted), sum.Repeated && d.Repeated
		sum.Remaining = min(sum.Remaining, d.Remaining)
		if sum.DecidedBy == DecidedByStore {
			sum.DecidedBy = d.DecidedBy
		}
		if onlyShadows {
			continue // nobody has to wait
		}
		sum.RetryAfter, sum.ResetAfter = max(sum.RetryAfter, d.RetryAfter), max(sum.ResetAfter, d.ResetAfter)
		sum.Delay = max(sum.Delay, d.Delay)
		if !d.Allowed && !d.Unguarded {
			sum.DeniedBy = append(sum.DeniedBy, i)
		}
	}
	if len(sum.DeniedBy) > 0 {
		sum.DecidedBy = decisions[sum.DeniedBy[0]].DecidedBy
	}
	return sum
}
