package store

import "time"

// Decider is what made a decision.
type Decider uint8

const (
	// DecidedByStore: the store decided by the limit itself.
	DecidedByStore Decider = iota
	// DecidedByLocal: the store was away, and a share of the limit was decided locally.
	DecidedByLocal
	// DecidedByDenialMemory: the store denied the same before, and nothing can have changed
	// that since but an operator.
	DecidedByDenialMemory
	// DecidedByLease: the units had been taken from the store ahead.
	DecidedByLease
	// DecidedByOverride: an operator's word stood above the limit.
	DecidedByOverride
	// DecidedByFailurePolicy: the store was away, and the failure policy let everybody in,
	// or nobody.
	DecidedByFailurePolicy
)

// String returns the word of the decider that machine formats have, such as
// "denial-memory".
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
	// Allowed: the request fits its limit. In a call of several requests
	// nothing is charged unless every decision is Allowed, those of shadows
	// aside. A refund is always allowed, unless it has a NotAfter and comes late.
	Allowed bool
	// Shadow: the request was a shadow's, so this decision does not count.
	Shadow bool
	// Used is the units in use, rounded up to whole ones. It can exceed the
	// capacity after a limit was lowered.
	Used int64
	// Granted is the units that the call charged: the cost of an allowed take, what fitted of
	// a TakeUpTo, the real cost of a Settle. It is zero where nothing was charged.
	Granted int64
	// Refunded is the units that a Refund gave back: its cost, or for a token what was charged
	// under it, or what was in use if that is less. It is zero if there was nothing to give back.
	Refunded int64
	// Repeated: the token of the request is remembered, so this call has charged nothing, and
	// Granted is what the first one charged.
	Repeated bool
	// Remaining is what a take could have now: a take of Remaining is
	// allowed, one of Remaining+1 is denied.
	Remaining int64
	// RetryAfter is how long until the same request is allowed, if nobody
	// else takes: at that instant it is, a microsecond earlier it is not. It
	// is zero if Allowed, for a shadow whose limit the cost can never fit, and for a refund
	// that came late.
	RetryAfter time.Duration
	// ResetAfter is how long until the key equals an unused one.
	ResetAfter time.Duration
	// Delay is how long an allowed request of a leaky bucket should wait for
	// its turn to leave; zero for the other algorithms.
	Delay time.Duration
	// At is the instant that the store's clock showed when it decided, from
	// which the durations count. In a Cluster each slot's master has a clock of
	// its own. A clock that was set back shows here as it is, although for the
	// key no time passed.
	At Instant
	// Unguarded: this decision was not made by the limit, because the store, or the
	// part of it that has this key, was away. A failure policy made it (see
	// limiter.FailOpen and limiter.FailClosed), or nobody did, where another limit had denied the call
	// already. The fields of what is used and of when are zero then.
	Unguarded bool
	// DecidedBy says who made the decision: the store, unless something that wraps it did.
	DecidedBy Decider
	// LocalShare is the share of the limit that was decided by, if DecidedBy is
	// [DecidedByLocal]; else it is zero.
	LocalShare Share
	// Override is the operator's override that applied; nil if none did. It is shared, and
	// must not be changed.
	Override *Override
}

// AllAllowed reports whether every decision but a shadow's is allowed, that is,
// whether the call that made them took effect. No decisions are not allowed, so that an ignored error
// lets nobody in.
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

// Decide answers op on the requests against the states of their keys at one
// instant, all or nothing, and changes the states accordingly. It is what an
// embedded store does between reading and writing, and what the Lua scripts do
// in Redis. The requests must be normalized and the three slices equally long.
//
// changed reports whether any state was changed and needs to be stored.
func Decide(op Op, reqs []Request, states []*State, decisions []Decision, now Instant) (changed bool) {
	if len(reqs) == 1 {
		return DecideOne(op, &reqs[0], states[0], &decisions[0], now)
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
		decisions[i] = Decision{Allowed: used+req.Cost <= req.Limit.Capacity(), Shadow: req.Shadow, Used: used, At: now}
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

// takeOne is Decide for the most common call, without what only several requests need. It
// looks the limit's rule up once.
func takeOne(req *Request, s *State, d *Decision, now Instant) (changed bool) {
	kind, capacity := &definitions[req.Limit.Kind()], req.Limit.Count
	if kind.hasBurst {
		capacity = req.Limit.Burst
	}
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
	if s.Limit.countsLike(&req.Limit) {
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

// describe derives the rest of d, which says whether req was allowed and what
// is used of s at now.
func (d *Decision) describe(s *State, req *Request, now Instant) {
	capacity := req.Limit.Capacity()
	d.Remaining = max(0, capacity-d.Used)
	d.ResetAfter = now.Until(s.UnusedAt(now))
	if !d.Allowed && req.Cost <= capacity {
		d.RetryAfter = now.Until(s.usedAtMost(capacity-req.Cost, now))
	}
}

// Answer describes s at now, as a request has left it that was allowed or not.
// It is for a store that decides elsewhere and brings the state back.
func (s *State) Answer(req *Request, now Instant, allowed bool) Decision {
	d := Decision{Allowed: allowed, Shadow: req.Shadow, Used: s.Used(now), At: now}
	d.describe(s, req, now)
	return d
}

// Delay returns how long a request allowed under limit at now waits for its
// turn: in a leaky bucket until all that is queued has left at limit's rate,
// else not at all.
func (s *State) Delay(limit *Limit, now Instant) time.Duration {
	queue := definitions[limit.Kind()].queue
	if queue == nil || s.IsZero() {
		return 0
	}
	return now.Until(queue.turn(s, *limit, s.clock(now)))
}
