package limiter

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Decider is what made a decision.
type Decider uint8

const (
	// DecidedByStore: the store decided by the limit itself.
	DecidedByStore Decider = Decider(store.DecidedByStore)
	// DecidedByLocal: the store was away, and a share of the limit decided in this process; see [FailLocal].
	DecidedByLocal Decider = Decider(store.DecidedByLocal)
	// DecidedByDenialMemory: the store denied the same a moment before; see [DenialMemory].
	DecidedByDenialMemory Decider = Decider(store.DecidedByDenialMemory)
	// DecidedByLease: the units had been taken ahead; see [Leases].
	DecidedByLease Decider = Decider(store.DecidedByLease)
	// DecidedByOverride: an operator's [Override] blocks or exempts the key.
	DecidedByOverride Decider = Decider(store.DecidedByOverride)
	// DecidedByFailurePolicy: the store was away, and [FailOpen] or [FailClosed] decided.
	DecidedByFailurePolicy Decider = Decider(store.DecidedByFailurePolicy)
)

// String returns the word that machine formats have: "store", "local", "denial-memory", "lease",
// "override" or "failure-policy".
func (d Decider) String() string { return store.Decider(d).String() }

// Decision is the answer to one request. Used, Remaining and ResetAfter describe the key as the
// call leaves it.
type Decision struct {
	// Allowed: the request fits its limit. If a call has several requests, its units are charged
	// only if all of them are allowed; see [Decisions.Allowed].
	Allowed bool
	// Shadow: the limit is tried out, so a denial of it denies nothing.
	Shadow bool
	// Granted is the number of units that the call charged, Refunded the number that it gave back.
	Granted, Refunded int64
	// Repeated: the same call with the same token was allowed before, and charged nothing more now.
	Repeated bool
	// Used is the number of units in use, Remaining what a next request can have at once.
	Used, Remaining int64
	// RetryAfter is when the same request is allowed if nobody else asks: at that instant it is,
	// and a microsecond earlier it is not. It is 0 if the request is allowed.
	RetryAfter time.Duration
	// ResetAfter is when nothing is in use any more.
	ResetAfter time.Duration
	// Delay is how long an allowed request of a [LeakyBucket] waits for its turn.
	Delay time.Duration
	// At is when the store decided, by its own clock.
	At time.Time
	// Unguarded: the store was away, and no limit was asked. See [FailOpen] and [FailClosed].
	Unguarded bool
	// DecidedBy is what decided: the store, unless it was away or an option decided before it.
	DecidedBy Decider
	// LocalShare is the share of the limit that was decided by while the store was away, from 0
	// to 1; see [FailLocal].
	LocalShare float64
	// Override is what an operator has set for this key for some time; nil if nothing.
	Override *Override
}

// Override is an operator's word about some keys, with an end: another limit, a block or an
// exemption. `limitctl override` sets it.
type Override struct {
	// ID names it in the store.
	ID string
	// Effect is "limit", "times", "add", "block" or "exempt".
	Effect string
	// Reason and By are why it was set, and by whom.
	Reason, By string
	// Until is when it ends.
	Until time.Time
}

// Decisions are the answers to the requests of one call, in their order. The zero Decisions are
// denied.
type Decisions struct {
	count int
	first store.Decision // most calls have one, which needs no memory of its own
	rest  []store.Decision
}

// DecisionsOf returns decisions of package store as this package has them. They are shared, and must not be changed after.
func DecisionsOf(decisions []store.Decision) Decisions {
	d := Decisions{count: len(decisions)}
	if len(decisions) > 0 {
		d.first, d.rest = decisions[0], decisions[1:]
	}
	return d
}

// Allowed reports whether the call took effect: all requests are allowed, those of limits that
// are tried out aside.
func (d Decisions) Allowed() bool {
	if d.count == 1 {
		return d.first.Allowed || d.first.Shadow
	}
	return store.AllAllowed(d.all())
}

// Remaining is the least number of units that any of the limits has left.
func (d Decisions) Remaining() int64 { return d.summary().Remaining }

// RetryAfter is the time after which all limits allow the same call; 0 only if they do now. Where a denial
// cannot tell, as of [FailClosed], it is a second.
func (d Decisions) RetryAfter() time.Duration {
	after := d.summary().RetryAfter
	if after == 0 && !d.Allowed() {
		return time.Second
	}
	return after
}

// ResetAfter is the time after which none of the limits has anything in use.
func (d Decisions) ResetAfter() time.Duration { return d.summary().ResetAfter }

// Delay is the time that an allowed call waits for its turn. It is above 0 only for a [LeakyBucket].
func (d Decisions) Delay() time.Duration { return d.summary().Delay }

// Granted is the number of units that the call charged, the least of its limits.
func (d Decisions) Granted() int64 { return d.summary().Granted }

// Unguarded reports whether no limit was asked because the store was away.
func (d Decisions) Unguarded() bool { return d.summary().Unguarded }

// DecidedBy is what the answer comes from: what denied first, else what allowed in the store's place,
// else the store.
func (d Decisions) DecidedBy() Decider { return Decider(d.summary().DecidedBy) }

// DeniedBy returns the places of the requests that denied the call, in their order; all of
// them if [FailClosed] denied. After an error nothing was decided, and it is empty.
func (d Decisions) DeniedBy() []int {
	by := d.summary().DeniedBy
	if by == nil && !d.Allowed() {
		for i := range d.count {
			by = append(by, i)
		}
	}
	return by
}

// Len returns the number of decisions, which is that of the requests.
func (d Decisions) Len() int { return d.count }

// At returns the i-th decision, from 0 on.
func (d Decisions) At(i int) Decision {
	if i < 0 || i >= d.count {
		panic("limiter: no such decision") // as an index of a slice
	}
	if i == 0 {
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
		Unguarded: d.Unguarded, DecidedBy: Decider(d.DecidedBy), LocalShare: float64(d.LocalShare) / float64(store.WholeShare),
	}
	if d.At != 0 {
		decision.At = d.At.Time()
	}
	if o := d.Override; o != nil {
		decision.Override = &Override{ID: o.ID, Effect: o.Effect.String(), Reason: o.Reason, By: o.By, Until: o.ExpiresAt}
	}
	return decision
}
