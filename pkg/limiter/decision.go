package limiter

import (
	"fmt"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Decider is what made a decision. Its String is the word of machine formats, such as "store" or "failure-policy".
type Decider = store.Decider

const (
	// DecidedByStore: the store decided by the limit itself.
	DecidedByStore Decider = store.DecidedByStore
	// DecidedByLocal: the store was away, and this process decided by a share of the limit; see [FailLocal].
	DecidedByLocal Decider = store.DecidedByLocal
	// DecidedByDenialMemory: the process remembered a denial of the store; see [DenialMemory].
	DecidedByDenialMemory Decider = store.DecidedByDenialMemory
	// DecidedByLease: the process had taken the units in advance; see [Leases].
	DecidedByLease Decider = store.DecidedByLease
	// DecidedByOverride: an operator's [Override] blocks or exempts the key.
	DecidedByOverride Decider = store.DecidedByOverride
	// DecidedByFailurePolicy: the store was away, and [FailOpen] or [FailClosed] decided.
	DecidedByFailurePolicy Decider = store.DecidedByFailurePolicy
)

// Decision is the answer to one request. Used, Remaining and ResetAfter describe the key as the
// call leaves it.
type Decision struct {
	// Allowed: the request fits its limit. A call with several requests charges only if all of them are allowed;
	// see [Decisions.Allowed].
	Allowed bool
	// Shadow: the limit is on trial and never denies.
	Shadow bool
	// Granted is the number of units that the call charged, and Refunded the number that it gave back.
	Granted, Refunded int64
	// Repeated: an earlier call with the same token was allowed. This call charged nothing more.
	Repeated bool
	// Used is the number of units in use. Remaining is the largest cost that would be allowed now.
	Used, Remaining int64
	// RetryAfter is the time until the same request is allowed, if nobody else takes. It is exact: a microsecond
	// earlier the request is denied. It is 0 if the request is allowed.
	RetryAfter time.Duration
	// ResetAfter is the time until nothing is in use, if nobody takes.
	ResetAfter time.Duration
	// Delay is how long an allowed request of a [LeakyBucket] waits for its turn.
	Delay time.Duration
	// At is the instant of the decision, by the clock of the store.
	At time.Time
	// Unguarded: the store was away, and no limit was applied. See [FailOpen] and [FailClosed].
	Unguarded bool
	// DecidedBy is what decided. It is the store, unless the store was away or an option decided before it.
	DecidedBy Decider
	// LocalShare is the share of the limit by which this process decided while the store was away, from 0 to 1; see
	// [FailLocal].
	LocalShare float64
	// Override is the override that applies to this key; nil if there is none.
	Override *Override
}

// String returns what an operator has to know: "denied, 10 used, 0 remaining, try again in 51s".
func (d Decision) String() string {
	text := "denied"
	if d.Allowed {
		text = "allowed"
	}
	if d.Shadow {
		text += " in shadow"
	}
	if d.DecidedBy != DecidedByStore {
		text += " by " + d.DecidedBy.String()
	}
	if d.Unguarded {
		return text + ", unguarded"
	}
	text += fmt.Sprintf(", %d used, %d remaining", d.Used, d.Remaining)
	if d.RetryAfter > 0 {
		text += ", try again in " + store.FormatPeriod(d.RetryAfter)
	}
	if d.Delay > 0 {
		text += ", its turn is in " + store.FormatPeriod(d.Delay)
	}
	return text
}

// Override is a rule of an operator for some keys until an instant: another limit, a block or an exemption.
// `limitctl override` sets it.
type Override struct {
	// ID names it in the store.
	ID string
	// Effect is "limit", "times", "add", "block" or "exempt".
	Effect string
	// Reason and By say why it was set, and who set it.
	Reason, By string
	// Until is when it ends.
	Until time.Time
}

// Decisions are the answers to the requests of one call, in their order. The zero Decisions are
// denied.
type Decisions struct {
	count int
	first store.Decision // most calls have one, which needs no allocation
	rest  []store.Decision
}

// DecisionsOf converts decisions of package store. The result shares their memory, so do not change them
// afterwards.
func DecisionsOf(decisions []store.Decision) Decisions {
	d := Decisions{count: len(decisions)}
	if len(decisions) > 0 {
		d.first, d.rest = decisions[0], decisions[1:]
	}
	return d
}

// Allowed reports whether the call took effect: every request is allowed, apart from those of shadow limits.
func (d Decisions) Allowed() bool {
	if d.count == 1 { // the usual call, which must allocate nothing
		return d.first.Allowed || d.first.Shadow
	}
	return store.AllAllowed(d.all())
}

// Remaining is the smallest number of units that a limit of the call has left.
func (d Decisions) Remaining() int64 { return d.summary().Remaining }

// RetryAfter is the time after which all limits allow the same call. It is 0 only if they do now. If a denial does
// not know, such as one by [FailClosed], it is a second.
func (d Decisions) RetryAfter() time.Duration {
	after := d.summary().RetryAfter
	if after == 0 && !d.Allowed() {
		return time.Second
	}
	return after
}

// ResetAfter is the time until none of the limits has units in use.
func (d Decisions) ResetAfter() time.Duration { return d.summary().ResetAfter }

// Delay is the time that an allowed call waits for its turn. It is above 0 only for a [LeakyBucket].
func (d Decisions) Delay() time.Duration { return d.summary().Delay }

// Granted is the number of units that the call charged, the smallest of its limits.
func (d Decisions) Granted() int64 { return d.summary().Granted }

// Unguarded reports whether no limit was applied because the store was away.
func (d Decisions) Unguarded() bool { return d.summary().Unguarded }

// DecidedBy is the source of the answer: the first that denied, else the first that allowed in place of the store,
// else the store.
func (d Decisions) DecidedBy() Decider { return d.summary().DecidedBy }

// DeniedBy returns the indexes of the requests that denied the call, in their order; all of them if [FailClosed]
// denied. After an error it is empty.
func (d Decisions) DeniedBy() []int {
	by := d.summary().DeniedBy
	if by == nil && !d.Allowed() {
		for i := range d.count {
			by = append(by, i)
		}
	}
	return by
}

// Len returns the number of decisions, which is the number of requests.
func (d Decisions) Len() int { return d.count }

// At returns the decision on request i. The first is 0. After an error there are none, and At panics.
func (d Decisions) At(i int) Decision {
	if i == 0 && d.count > 0 {
		return decisionOf(&d.first)
	}
	return decisionOf(&d.rest[i-1])
}

// All returns all decisions.
func (d Decisions) All() []Decision {
	all := make([]Decision, d.count)
	for i := range all {
		all[i] = d.At(i)
	}
	return all
}

// String returns the decisions in their order, after the answer to the whole call if there are several.
func (d Decisions) String() string {
	if d.count == 1 {
		return d.At(0).String()
	}
	text := "denied"
	if d.Allowed() {
		text = "allowed"
	}
	each := make([]string, d.count)
	for i := range each {
		each[i] = d.At(i).String()
	}
	if len(each) == 0 {
		return text
	}
	return text + " (" + strings.Join(each, "; ") + ")"
}

func (d Decisions) summary() store.Summary { return store.Summarize(d.all()) }

func (d Decisions) all() []store.Decision {
	if d.count == 0 {
		return nil
	}
	return append([]store.Decision{d.first}, d.rest...)
}

func decisionOf(d *store.Decision) Decision {
	decision := Decision{
		Allowed: d.Allowed, Shadow: d.Shadow, Granted: d.Granted, Refunded: d.Refunded, Repeated: d.Repeated,
		Used: d.Used, Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter, Delay: d.Delay,
		Unguarded: d.Unguarded, DecidedBy: d.DecidedBy, LocalShare: float64(d.LocalShare) / float64(store.WholeShare),
	}
	if d.At != 0 {
		decision.At = d.At.Time()
	}
	if o := d.Override; o != nil {
		decision.Override = &Override{ID: o.ID, Effect: o.Effect.String(), Reason: o.Reason, By: o.By,
			Until: o.ExpiresAt}
	}
	return decision
}
