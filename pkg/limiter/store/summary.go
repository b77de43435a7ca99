package store

import "time"

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
	// RetryAfter, ResetAfter and Delay are the greatest of the limits: when all of
	// them allow the same call, when all are unused, and when an allowed call may go on.
	RetryAfter, ResetAfter, Delay time.Duration
	// DecidedBy is the source of the answer: that of the first denial, otherwise that of the first decision that the
	// store did not make, otherwise the store.
	DecidedBy Decider
	// Granted is the least that the call charged to one of the limits. Repeated: an earlier call charged it; see
	// [Decision.Repeated].
	Granted  int64
	Repeated bool
	// DeniedBy are the indices of the decisions that denied, in their order.
	DeniedBy []int
}

// Summarize sums up the decisions of one call. Decisions of shadow limits count only if there are no others, and
// then they deny nothing. A decision that was not made, because another limit had already denied, does not count. No
// decisions are a denial, as for [AllAllowed].
func Summarize(decisions []Decision) Summary {
	sum := Summary{Allowed: AllAllowed(decisions), Unguarded: true}
	onlyShadows := true
	for i := range decisions {
		d := &decisions[i]
		onlyShadows = onlyShadows && d.Shadow
		sum.Unguarded = sum.Unguarded && (d.Shadow || d.Unguarded)
	}
	if len(decisions) == 0 {
		return Summary{} // nobody was asked
	}
	if onlyShadows {
		sum.Unguarded = decisions[0].Unguarded
	}
	first := true
	for i := range decisions {
		d := &decisions[i]
		if !onlyShadows && (d.Shadow || d.Unguarded && !sum.Unguarded) {
			continue
		}
		if first {
			sum.Used, sum.Remaining, sum.Granted, sum.Repeated, first = d.Used, d.Remaining, d.Granted, d.Repeated, false
		}
		sum.Granted, sum.Repeated = min(sum.Granted, d.Granted), sum.Repeated && d.Repeated
		sum.Remaining = min(sum.Remaining, d.Remaining)
		if sum.DecidedBy == DecidedByStore {
			sum.DecidedBy = d.DecidedBy
		}
		if onlyShadows {
			continue // nobody has to wait
		}
		sum.RetryAfter = max(sum.RetryAfter, d.RetryAfter)
		sum.ResetAfter = max(sum.ResetAfter, d.ResetAfter)
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
