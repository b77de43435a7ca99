package store

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Op is an operation of a store on requests.
type Op uint8

const (
	// Take decides and, if all requests are allowed, charges them all.
	Take Op = iota
	// Peek decides like Take, and writes nothing.
	Peek
	// Refund gives units back, the newest first, and never more than are in use.
	Refund
	// Adjust leaves exactly Cost units of each key in use: it charges the missing units, or gives back those that
	// are too many. Cost may be 0. It is for corrections by operators, and denies nothing.
	Adjust
	// Charge charges all requests even if they do not fit, and denies nothing. It is an [ErrInvalid], and charges
	// nothing, if more than [MaxUsage] units would be in use, or for longer than [MaxDrain].
	Charge
	// Settle replaces the cost of a call with a token by its real cost, once: it charges the missing units like
	// Charge, or gives back those that are too many like Refund. Cost may be 0. Another Settle with the same costs
	// has the same answer; with others it is an [ErrInvalid]. If the token is unknown, it is an [ErrUnknownToken].
	Settle
	// TakeUpTo charges as many of Cost units as fit, the same to every request, as [Decision].Granted; it is allowed
	// if that is at least one. All requests have the same Cost and, in a Cluster, one slot.
	TakeUpTo
)

// String returns the operation's name, such as "take".
func (op Op) String() string {
	return [...]string{"take", "peek", "refund", "adjustment", "charge", "settlement", "take of what fits"}[op]
}

// MaxRequests is the most requests that one call decides together.
const MaxRequests = 64

// Request asks for Cost units of Key under Limit.
type Request struct {
	Key   Key
	Limit Limit
	Cost  int64 // units, 1 or more
	// Leave is the number of units that must stay free for others: a take is allowed only if used + Cost + Leave do not
	// exceed the capacity. Remaining and RetryAfter are those of a request that leaves as much.
	Leave int64
	// Shadow: the limit is on trial. It is charged when the others allow the call and the cost fits it, and never
	// denies the call.
	Shadow bool
	// Token, if not empty, makes it safe to repeat a call: the store remembers an allowed Take, Charge or TakeUpTo
	// with its token, and the same call gets the same answer and charges nothing more. With another key, limit, cost
	// or operation it is an [ErrInvalid]. A Peek gives the answer of a Take. A Refund gives back what was charged,
	// once, and forgets the token. A Settle needs a token, and an Adjust has none. All requests of a call have the same
	// token, of at most [MaxTokenLength] bytes. In a Cluster each slot remembers its own requests.
	Token string
	// TokenTTL is how long the token is remembered, by default [DefaultTokenTTL]. The first call's counts.
	TokenTTL time.Duration
	// NotAfter, if not zero, makes a late Refund do nothing, not Allowed: one at which the store's clock, or the last
	// charge of a key, is past it. All requests of a call have the same NotAfter.
	NotAfter Instant
	// TokenFor is the request that the token belongs to, with its defaults set, if a wrapper has changed this one.
	TokenFor *Request
}

// Bounds of tokens, in bytes and in time.
const (
	MaxTokenLength  = 200
	DefaultTokenTTL = 10 * time.Minute
	MinTokenTTL     = time.Millisecond
	MaxTokenTTL     = 24 * time.Hour
)

// Normalize is SetDefaults and Check.
func (r *Request) Normalize(op Op) error {
	r.SetDefaults()
	return r.Check(op)
}

// SetDefaults fills in the defaults of r's limit, name and token.
func (r *Request) SetDefaults() {
	r.Limit.setDefaults()
	if r.Key.Name == "" {
		r.Key.Name = r.Limit.DefaultName()
	}
	if r.Token != "" && r.TokenTTL == 0 {
		r.TokenTTL = DefaultTokenTTL
	}
}

// HasDefaults reports whether [Request.SetDefaults] would change nothing in r.
func (r *Request) HasDefaults() bool {
	return r.Key.Name != "" && r.Limit.Algorithm != 0 && r.Limit.Burst != 0 && r.Limit.Slices != 1 &&
		(r.Token == "" || r.TokenTTL != 0)
}

// Capacity returns the most units that may be in use after r: what its limit allows at once, less what r leaves.
func (r *Request) Capacity() int64 { return r.Limit.Capacity() - r.Leave }

// NeverFits reports whether op on r can never be allowed, however little is in use.
func (r *Request) NeverFits(op Op) bool {
	switch op {
	case Take, Peek:
		return !r.Shadow && r.Cost > r.Capacity()
	case TakeUpTo:
		return !r.Shadow && r.Capacity() < 1
	case Adjust:
		return !r.Shadow && r.Cost > r.Limit.Capacity()
	case Refund, Charge, Settle: // they need no room
	}
	return false
}

// SetLimit puts r, whose defaults are set, under another limit. What r leaves stays the same share of the capacity,
// rounded up.
func (r *Request) SetLimit(limit Limit) {
	if r.Leave > 0 && r.Leave <= MaxCount {
		r.Leave = mulAddDivCeil(r.Leave, limit.Capacity(), 0, r.Limit.Capacity())
		r.Leave = min(r.Leave, MaxCount)
	}
	r.Limit = limit
}

// Check returns an [ErrInvalid] if r, with its defaults, is out of bounds: a [*NeverFitsError] if it never fits.
func (r *Request) Check(op Op) error {
	if err := r.Limit.check(); err != nil {
		return err
	}
	if err := r.Key.Validate(); err != nil {
		return err
	}
	if err := r.checkToken(op); err != nil {
		return err
	}
	switch {
	case r.Cost < 0 && op == Settle:
		return Invalidf("cost %d is negative; a real cost is 0 or more", r.Cost)
	case r.NotAfter != 0 && op != Refund:
		return Invalidf("only a refund has a last instant, and this is a %s; leave it out", op)
	case r.NotAfter < 0 || r.NotAfter > MaxInstant:
		return Invalidf("the last instant %d of a refund is out of range; it must be from 1 to %d", r.NotAfter,
			int64(MaxInstant))
	case r.Cost < 0 || r.Cost == 0 && op != Adjust && op != Settle:
		return Invalidf("cost %d is not positive; it must be 1 or more", r.Cost)
	case r.Leave < 0 || r.Leave > MaxCount:
		return Invalidf("leave %d is out of range; it must be from 0 to %d", r.Leave, MaxCount)
	case r.NeverFits(op):
		return &NeverFitsError{op, *r}
	case r.Cost > MaxCount:
		return Invalidf("cost %d is out of range; it must be from 1 to %d", r.Cost, MaxCount)
	}
	return nil
}

// checkToken returns an error if r's token does not fit op.
func (r *Request) checkToken(op Op) error {
	switch {
	case r.Token == "" && op == Settle:
		return Invalidf("a settlement needs the token of the take that it settles")
	case r.Token == "":
		return nil
	case op == Adjust:
		return Invalidf("an adjustment has no token; leave token %q out", r.Token)
	case r.TokenTTL < MinTokenTTL || r.TokenTTL > MaxTokenTTL:
		return Invalidf("token TTL %s is out of range; it must be from %s to %s", FormatPeriod(r.TokenTTL),
			FormatPeriod(MinTokenTTL),
			FormatPeriod(MaxTokenTTL))
	}
	return checkPart("token", r.Token, MaxTokenLength)
}

// NormalizeAll appends the normalized reqs to buf. There may be at most [MaxRequests], all with the same token or
// none, and no key twice: two charges of one key could each fit and not both.
func NormalizeAll(buf []Request, op Op, reqs []Request) ([]Request, error) {
	if len(reqs) == 0 || len(reqs) > MaxRequests {
		return buf, Invalidf("%d requests in one call; there must be from 1 to %d", len(reqs), MaxRequests)
	}
	first := len(buf)
	buf = append(buf, reqs...)
	for i := first; i < len(buf); i++ {
		if err := buf[i].Normalize(op); err != nil {
			if !errors.Is(err, ErrNeverFits) && len(reqs) > 1 {
				err = fmt.Errorf("limit %.64q: %w", buf[i].Key.Name, err)
			}
			return buf, err
		}
		if err := buf[i].checkBeside(op, &buf[first]); err != nil {
			return buf, err
		}
		for j := first; j < i; j++ {
			if buf[j].Key == buf[i].Key {
				return buf, Invalidf(
					"limits %q and %q of subject %q share the name %q; drop one, choose another algorithm, "+
						"or name them apart in a policy", buf[j].Limit, buf[i].Limit, buf[i].Key.Subject,
					buf[i].Key.Name)
			}
		}
	}
	return buf, nil
}

// CheckStored returns an [ErrInvalid] for the first limit that no store keeps; see [Limit.CheckStored].
func CheckStored(reqs []Request) error {
	for i := range reqs {
		if err := reqs[i].Limit.CheckStored(); err != nil {
			return err
		}
	}
	return nil
}

// checkBeside returns an error if r cannot be in one call with first.
func (r *Request) checkBeside(op Op, first *Request) error {
	switch {
	case r.Token != first.Token || r.TokenTTL != first.TokenTTL && r.Token != "":
		return Invalidf("requests with the tokens %q and %q in one call; all must have the same, for the same time",
			first.Token, r.Token)
	case r.NotAfter != first.NotAfter:
		return Invalidf("refunds with the last instants %d and %d in one call; all must have the same", first.NotAfter,
			r.NotAfter)
	case op == TakeUpTo && r.Cost != first.Cost:
		return Invalidf("costs %d and %d in one take of what fits; all must be the same", first.Cost, r.Cost)
	}
	return nil
}

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
