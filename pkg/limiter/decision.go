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
	}
	return "unknown operation"
}

// MaxRequests is how many requests one call decides together at most.
const MaxRequests = 64

// Request asks for Cost units of Key under Limit.
type Request struct {
	Key   Key
	Limit Limit
	Cost  int64 // units, 1 or more
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
		r.Key.Name = r.Limit.DefaultName()
	}
}

// Check reports, as an [ErrInvalid], what is out of bounds in r, whose defaults
// are set. A cost that is more than the limit ever allows is an [ErrNeverFits],
// except for a refund, which has nothing to fit.
func (r *Request) Check(op Op) error {
	if err := r.Limit.check(); err != nil {
		return err
	}
	if err := r.Key.Validate(); err != nil {
		return err
	}
	switch {
	case r.Cost < 1:
		return invalidf("cost %d is not positive; it must be 1 or more", r.Cost)
	case op != Refund && r.Cost > r.Limit.Capacity():
		return &invalidError{neverFits: true, text: fmt.Sprintf(
			"cost %d can never fit limit %s, which allows at most %d at once", r.Cost, r.Limit, r.Limit.Capacity())}
	case r.Cost > MaxCount:
		return invalidf("cost %d is out of range; it must be from 1 to %d", r.Cost, MaxCount)
	}
	return nil
}

// NormalizeAll appends the normalized reqs to buf. Besides what
// [Request.Normalize] checks, there may be at most [MaxRequests], and no key
// twice: two charges of one key could each fit and not both.
func NormalizeAll(buf []Request, op Op, reqs []Request) ([]Request, error) {
	if len(reqs) == 0 || len(reqs) > MaxRequests {
		return buf, invalidf("%d requests in one call; there must be from 1 to %d", len(reqs), MaxRequests)
	}
	first := len(buf)
	buf = append(buf, reqs...)
	for i := first; i < len(buf); i++ {
		if err := buf[i].Normalize(op); err != nil {
			return buf, err
		}
		for j := first; j < i; j++ {
			if buf[j].Key == buf[i].Key {
				return buf, invalidf("limits %q and %q of subject %q share the name %q; name them apart or drop one",
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
	// nothing is charged unless every decision is Allowed.
	Allowed bool
	// Used is the units in use, rounded up to whole ones. It can exceed the
	// capacity after a limit was lowered.
	Used int64
	// Remaining is what a take could have now: a take of Remaining is
	// allowed, one of Remaining+1 is denied.
	Remaining int64
	// RetryAfter is how long until the same request is allowed, if nobody
	// else takes: at that instant it is, a microsecond earlier it is not. It
	// is zero if Allowed.
	RetryAfter time.Duration
	// ResetAfter is how long until the key equals an unused one.
	ResetAfter time.Duration
	// Delay is how long an allowed request of a leaky bucket should wait for
	// its turn to leave; zero for the other algorithms.
	Delay time.Duration
	// Unguarded: the store was away and a failure policy, not the limit, made
	// this decision (see [WithFailurePolicy]). The other fields are zero.
	Unguarded bool
}

// AllAllowed reports whether every decision is allowed, that is, whether the
// call that made them took effect.
func AllAllowed(decisions []Decision) bool {
	for i := range decisions {
		if !decisions[i].Allowed {
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
	if op == Refund {
		for i, s := range states {
			changed = changed || !s.IsZero()
			s.Refund(reqs[i].Cost, now)
			decisions[i] = s.Answer(&reqs[i], now, true)
		}
		return changed
	}
	all := true
	for i, s := range states {
		req, used := &reqs[i], s.Used(now)
		decisions[i] = Decision{Allowed: used+req.Cost <= req.Limit.Capacity(), Used: used}
		all = all && decisions[i].Allowed
	}
	charge := all && op == Take
	for i, s := range states {
		req, d := &reqs[i], &decisions[i]
		if d.Allowed {
			d.Delay = s.Delay(&req.Limit, now)
		}
		if charge {
			s.Charge(req.Limit, req.Cost, now)
			d.Used += req.Cost
		}
		d.describe(s, req, now)
	}
	return charge
}

// describe derives the rest of d, which says whether req was allowed and what
// is used of s at now.
func (d *Decision) describe(s *State, req *Request, now Instant) {
	capacity := req.Limit.Capacity()
	d.Remaining = max(0, capacity-d.Used)
	d.ResetAfter = now.until(s.UnusedAt(now))
	if !d.Allowed {
		d.RetryAfter = now.until(s.usedAtMost(capacity-req.Cost, now))
	}
}

// Answer describes s at now, as a request has left it that was allowed or not.
// It is for a store that decides elsewhere and brings the state back.
func (s *State) Answer(req *Request, now Instant, allowed bool) Decision {
	d := Decision{Allowed: allowed, Used: s.Used(now)}
	d.describe(s, req, now)
	return d
}

// Delay returns how long a request allowed under limit at now waits for its
// turn: in a leaky bucket until all that is queued has left at limit's rate,
// else not at all.
func (s *State) Delay(limit *Limit, now Instant) time.Duration {
	if limit.Algorithm != LeakyBucket || s.IsZero() {
		return 0
	}
	return now.until(leakyBucket{}.turn(s, limit, s.clock(now)))
}
