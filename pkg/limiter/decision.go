package limiter

import (
	"fmt"
	"time"
)

// Op is what a store is asked to do with its requests.
type Op uint8

const (
	// Take decides and, if all requests are allowed, charges them all.
	Take Op = iota
	// Peek decides as Take would and writes nothing.
	Peek
	// Refund gives units back, the newest first, never more than were used.
	Refund
	// Adjust leaves exactly Cost units of each key in use: it charges what is missing,
	// or gives back what is too much. Cost may be 0. It is an operator's correction
	// and denies nothing.
	Adjust
)

// String returns the operation's name, such as "take".
func (op Op) String() string {
	switch op {
	case Take:
		return "take"
	case Peek:
		return "peek"
	case Refund:
		return "refund"
	case Adjust:
		return "adjustment"
	}
	return "unknown operation"
}

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

// MaxRequests is how many requests one call decides together at most.
const MaxRequests = 64

// Request asks for Cost units of Key under Limit.
type Request struct {
	Key   Key
	Limit Limit
	Cost  int64 // units, 1 or more
	// Shadow: the limit is tried out. It is charged when the others allow the
	// call and the cost fits it, its decision says what it would have answered,
	// and it never keeps the call from being allowed.
	Shadow bool
}

// Normalize is SetDefaults and Check.
func (r *Request) Normalize(op Op) error {
	r.SetDefaults()
	return r.Check(op)
}

// SetDefaults fills in the defaults of r's limit and name.
func (r *Request) SetDefaults() {
	r.Limit.setDefaults()
	if r.Key.Name == "" {
		r.Key.Name = defaultNames.get(r.Limit.Algorithm, r.Limit.Period, r.Limit.Slices)
	}
}

// Check reports, as an [ErrInvalid], what is out of bounds in r, whose defaults
// are set. A cost that is more than the limit ever allows is an [ErrNeverFits],
// except for a refund, which has nothing to fit, and for a shadow.
func (r *Request) Check(op Op) error {
	if err := r.Limit.check(); err != nil {
		return err
	}
	if err := r.Key.Validate(); err != nil {
		return err
	}
	switch {
	case r.Cost < 0 || r.Cost == 0 && op != Adjust:
		return Invalidf("cost %d is not positive; it must be 1 or more", r.Cost)
	case op != Refund && !r.Shadow && r.Cost > r.Limit.Capacity():
		return &invalidError{neverFits: true, text: fmt.Sprintf(
			"cost %d can never fit limit %s, which allows at most %d at once", r.Cost, r.Limit, r.Limit.Capacity())}
	case r.Cost > MaxCount:
		return Invalidf("cost %d is out of range; it must be from 1 to %d", r.Cost, MaxCount)
	}
	return nil
}

// NormalizeAll appends the normalized reqs to buf. Besides what
// [Request.Normalize] checks, there may be at most [MaxRequests], and no key
// twice: two charges of one key could each fit and not both.
func NormalizeAll(buf []Request, op Op, reqs []Request) ([]Request, error) {
	if len(reqs) == 0 || len(reqs) > MaxRequests {
		return buf, Invalidf("%d requests in one call; there must be from 1 to %d", len(reqs), MaxRequests)
	}
	first := len(buf)
	buf = append(buf, reqs...)
	for i := first; i < len(buf); i++ {
		if err := buf[i].Normalize(op); err != nil {
			return buf, err
		}
		for j := first; j < i; j++ {
			if buf[j].Key == buf[i].Key {
				return buf, Invalidf("limits %q and %q of subject %q share the name %q; name them apart or drop one",
					buf[j].Limit, buf[i].Limit, buf[i].Key.Subject, buf[i].Key.Name)
			}
		}
	}
	return buf, nil
}

// Decision is the answer to one request.
//
// Used, Remaining and ResetAfter describe the key as the call leaves it: after
// the charge of an allowed take, unchanged after a peek or a denial.
type Decision struct {
	// Allowed: the request fits its limit. In a call of several requests
	// nothing is charged unless every decision is Allowed, those of shadows
	// aside.
	Allowed bool
	// Shadow: the request was a shadow's, so this decision does not count.
	Shadow bool
	// Used is the units in use, rounded up to whole ones. It can exceed the
	// capacity after a limit was lowered.
	Used int64
	// Remaining is what a take could have now: a take of Remaining is
	// allowed, one of Remaining+1 is denied.
	Remaining int64
	// RetryAfter is how long until the same request is allowed, if nobody
	// else takes: at that instant it is, a microsecond earlier it is not. It
	// is zero if Allowed, and for a shadow whose limit the cost can never fit.
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
	// [WithFailurePolicy]), or nobody did, where another limit had denied the call
	// already. The fields of what is used and of when are zero then.
	Unguarded bool
	// DecidedBy says who made the decision: the store, unless something that wraps it did.
	DecidedBy Decider
}

// AllAllowed reports whether every decision but a shadow's is allowed, that is,
// whether the call that made them took effect.
func AllAllowed(decisions []Decision) bool {
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
	if op == Refund || op == Adjust {
		for i, s := range states {
			if op == Refund {
				changed = changed || !s.IsZero()
				s.Refund(reqs[i].Cost, now)
			} else {
				changed = s.Adjust(reqs[i].Limit, reqs[i].Cost, now) || changed
			}
			decisions[i] = s.Answer(&reqs[i], now, true)
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
			changed = true
		}
		d.describe(s, req, now)
	}
	return changed
}

// describe derives the rest of d, which says whether req was allowed and what
// is used of s at now.
func (d *Decision) describe(s *State, req *Request, now Instant) {
	capacity := req.Limit.Capacity()
	d.Remaining = max(0, capacity-d.Used)
	d.ResetAfter = now.until(s.UnusedAt(now))
	if !d.Allowed && req.Cost <= capacity {
		d.RetryAfter = now.until(s.usedAtMost(capacity-req.Cost, now))
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
	queue := pages[limit.Kind()].queue
	if queue == nil || s.IsZero() {
		return 0
	}
	return now.until(queue.turn(s, *limit, s.clock(now)))
}
