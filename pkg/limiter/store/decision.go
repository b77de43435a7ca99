package store

import "time"

// Decider is what made a decision.
type Decider uint8

const (
	// DecidedByStore: the store decided by the limit itself.
	DecidedByStore Decider = iota
	// DecidedByLocal: the store was away, and a share of the limit was decided locally.
	DecidedByLocal
	// DecidedByDenialMemory: the store denied the same before, and since then only an operator can have changed the
	// answer.
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
	switch d {
	case DecidedByLocal:
		return "local"
	case DecidedByDenialMemory:
		return "denial-memory"
	case DecidedByLease:
		return "lease"
	case DecidedByOverride:
		return "override"
	case DecidedByFailurePolicy:
		return "failure-policy"
	default:
		return "store"
	}
}

// Decision is the answer to one request.
//
// Used, Remaining and ResetAfter describe the key as the call leaves it: after
// the charge of an allowed take, unchanged after a peek or a denial.
type Decision struct {
	// Allowed: the request fits its limit. A call of several requests charges nothing unless every decision is
	// Allowed, except those of shadow limits. A refund is always allowed, unless it has a NotAfter and comes late.
	Allowed bool
	// Shadow: the limit of the request is a shadow limit, so this decision does not count.
	Shadow bool
	// Used is the units in use, rounded up to whole ones. It can exceed the
	// capacity after a limit was lowered.
	Used int64
	// Granted is the number of units that the call charged: the cost of an allowed take, what fit of a TakeUpTo, the
	// real cost of a Settle. It is zero if the call charged nothing.
	Granted int64
	// Refunded is the number of units that a Refund gave back: its cost, or for a token what was charged with it, or
	// what was in use if that is less.
	Refunded int64
	// Repeated: the token of the request was known, so this call charged nothing, and Granted is what the first call
	// charged.
	Repeated bool
	// Remaining is the largest cost that would be allowed now to one who leaves as much: a take of Remaining is
	// allowed, one of Remaining+1 is denied.
	Remaining int64
	// RetryAfter is the time until the same request is allowed, if nobody else takes: allowed at that instant, and
	// denied a microsecond earlier. It is zero if Allowed, for a shadow limit that the cost can never fit, and for a
	// refund that came late.
	RetryAfter time.Duration
	// ResetAfter is the time until the key is unused, if nobody takes.
	ResetAfter time.Duration
	// Delay is the time that an allowed request of a leaky bucket should wait for its turn; zero for the other
	// algorithms.
	Delay time.Duration
	// At is the instant of the decision by the store's clock. The durations count from it. In a Cluster the master
	// of each slot has its own clock. A clock that was set back shows its own time here, although no time passed for
	// the key.
	At Instant
	// Unguarded: the limit did not make this decision, because the store, or the shard that has this key, was away.
	// A failure policy made it (see limiter.FailOpen and limiter.FailClosed), or nobody did, because another limit
	// had already denied the call. The fields for usage and times are zero then.
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
	if len(decisions) == 0 {
		return false
	}
	for i := range decisions {
		if !decisions[i].Allowed && !decisions[i].Shadow {
			return false
		}
	}
	return true
}

// Decide answers op on the requests against the states of their keys at one instant, all or nothing, and changes the
// states. An embedded store calls it between reading and writing; the Lua scripts do the same in Redis. The requests
// must be normalized, and the three slices equally long.
//
// changed reports whether any state changed and must be stored.
func Decide(op Op, reqs []Request, states []*State, decisions []Decision, now Instant) (changed bool) {
	if len(reqs) == 1 && op == Take {
		return takeOne(&reqs[0], states[0], &decisions[0], now)
	}
	return decideSeveral(op, reqs, states, decisions, now)
}

// DecideOne is [Decide] for a single request.
func DecideOne(op Op, req *Request, s *State, d *Decision, now Instant) (changed bool) {
	if op == Take {
		return takeOne(req, s, d, now)
	}
	reqs, states, decisions := [1]Request{*req}, [1]*State{s}, [1]Decision{}
	changed = decideSeveral(op, reqs[:], states[:], decisions[:], now)
	*d = decisions[0]
	return changed
}

func decideSeveral(op Op, reqs []Request, states []*State, decisions []Decision, now Instant) (changed bool) {
	if op == Refund || op == Adjust {
		for i, s := range states {
			refunded := int64(0)
			if op == Refund {
				changed = changed || !s.IsZero()
				refunded = s.refunded(reqs[i].Cost, now)
			} else {
				changed = s.Adjust(reqs[i].Limit, reqs[i].Cost, now) || changed
			}
			decisions[i] = s.Answer(&reqs[i], now, true)
			decisions[i].Refunded = refunded
		}
		return changed
	}
	for i, s := range states {
		req, used := &reqs[i], s.Used(now)
		decisions[i] = Decision{Allowed: used+req.Cost <= req.Capacity(), Shadow: req.Shadow, Used: used, At: now}
	}
	charge := op == Take && AllAllowed(decisions)
	for i, s := range states {
		req, d := &reqs[i], &decisions[i]
		if d.Allowed {
			d.Delay = s.Delay(&req.Limit, now)
		}
		if charge && d.Allowed {
			s.Charge(req.Limit, req.Cost, now)
			d.Used += req.Cost
			d.Granted = req.Cost
			changed = true
		}
		d.describe(s, req, now)
	}
	return changed
}

// takeOne is Decide for the most common call, without the work for several requests. It looks up the rule of the
// limit once.
func takeOne(req *Request, s *State, d *Decision, now Instant) (changed bool) {
	kind, capacity := &definitions[req.Limit.Kind()], req.Limit.Count
	if kind.hasBurst {
		capacity = req.Limit.Burst
	}
	capacity -= req.Leave
	clock, used := s.clock(now), int64(0)
	if !s.IsZero() {
		used = s.rule().used(s, clock)
	}
	*d = Decision{Allowed: used+req.Cost <= capacity, Shadow: req.Shadow, Used: used, At: now}
	if !d.Allowed {
		d.describe(s, req, now)
		return false
	}
	if kind.queue != nil {
		d.Delay = s.Delay(&req.Limit, now)
	}
	if req.Limit.Calendar == nil && s.Limit.countsLike(&req.Limit) {
		kind.rule.charge(s, req.Cost, clock)
		s.Limit = req.Limit
	} else {
		s.Charge(req.Limit, req.Cost, now)
	}
	d.Used, d.Granted = used+req.Cost, req.Cost
	d.Remaining = capacity - d.Used
	d.ResetAfter = now.Until(kind.rule.usedAtMost(s, 0, clock))
	return true
}

// describe derives the rest of d, which already says whether req was allowed, from the usage of s at now.
func (d *Decision) describe(s *State, req *Request, now Instant) {
	capacity := req.Capacity()
	d.Remaining = max(0, capacity-d.Used)
	d.ResetAfter = now.Until(s.UnusedAt(now))
	if !d.Allowed && req.Cost <= capacity {
		d.RetryAfter = now.Until(s.usedAtMost(capacity-req.Cost, now))
	}
}

// Answer describes s at now, after a request that was allowed or not. It is for a store that decides elsewhere and
// returns the state.
func (s *State) Answer(req *Request, now Instant, allowed bool) Decision {
	d := Decision{Allowed: allowed, Shadow: req.Shadow, Used: s.Used(now), At: now}
	d.describe(s, req, now)
	return d
}

// Delay returns how long a request that limit allows at now waits for its turn: in a leaky bucket until everything
// in the queue has left at the rate of limit, and otherwise not at all.
func (s *State) Delay(limit *Limit, now Instant) time.Duration {
	queue := definitions[limit.Kind()].queue
	if queue == nil || s.IsZero() {
		return 0
	}
	return now.Until(queue.turn(s, *limit, s.clock(now)))
}
