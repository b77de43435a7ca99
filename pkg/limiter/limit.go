package limiter

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Algorithm is the rule by which usage fades. The zero Algorithm means [TokenBucket].
type Algorithm = store.Algorithm

// The algorithms.
const (
	// TokenBucket lets a burst through at once and refills evenly, Count in each Period.
	TokenBucket Algorithm = store.TokenBucket
	// LeakyBucket is a queue that is served at a constant rate: an allowed request waits for its Delay until its
	// turn. Burst is the length of the queue. The order holds across processes.
	LeakyBucket Algorithm = store.LeakyBucket
	// FixedWindow counts in windows that are aligned to the epoch. Around the border of two windows it can let
	// through twice the count.
	FixedWindow Algorithm = store.FixedWindow
	// SlidingLog is exact for every window. It stores the time of each unit.
	SlidingLog Algorithm = store.SlidingLog
	// SlidingCounter estimates a sliding window from the current and the previous window, or, with Slices, from
	// many smaller ones.
	SlidingCounter Algorithm = store.SlidingCounter
)

// Limit is how much is allowed: Count units in each Period, counted by Algorithm. The zero Limit is invalid: its
// requests are denied with an [ErrInvalid].
type Limit struct {
	// Name distinguishes the limits of one subject, such as "login/minute". It is a part of the key, and cannot be
	// empty. Two limits with the same Name share their usage, which fades by the limit that charged last.
	Name string
	// Count is the number of units allowed in each Period, from 1 to 1,000,000,000 (for a
	// [SlidingLog] to 1,000,000).
	Count int64
	// Period is the time of Count: whole microseconds, from 1 ms to 366 days.
	Period time.Duration
	// Algorithm is the rule by which usage fades. The default is [TokenBucket].
	Algorithm Algorithm
	// Burst is the most units that a token bucket allows at once, or the length of a leaky bucket's queue. The
	// default is Count. The other algorithms do not use it.
	Burst int64
	// Slices is the number of parts into which a [SlidingCounter] divides its period, from 1 to 3600. The default
	// is 1. More slices are more exact and take more memory.
	Slices int64
	// Shadow puts the limit on trial: it counts, its decision says what it would have answered, and it never
	// denies.
	Shadow bool
	// calendar is for windows of a calendar; only ParseLimit can say them.
	calendar *store.Calendar

	_ struct{} // callers have to name the fields, so that fields can be added
}

// Per returns a token bucket of count units in each period. The bounds are checked when the limit is used.
func Per(name string, count int64, period time.Duration) Limit {
	return Limit{Name: name, Count: count, Period: period}
}

// ParseLimit reads a limit in the form of the command line and of policies, such as "10/1m", "100/h,burst=20" or
// "sliding-counter:1000/1d,slices=24", and gives it name. Only it makes limits in windows of a calendar, such as
// "fixed-window:1000000/1mo,tz=Europe/Berlin"; the zone comes from the host's database, or from time/tzdata if the
// program imports that. An error is an [ErrInvalid] that says what is wrong.
func ParseLimit(name, text string) (Limit, error) {
	parsed, err := store.ParseLimit(text)
	if err != nil {
		return Limit{}, err
	}
	if err := parsed.CheckStored(); err != nil {
		return Limit{}, err
	}
	if name == "" {
		return Limit{}, store.Invalidf("the limit %s has no name", parsed)
	}
	return LimitOf(name, parsed), nil
}

// LimitOf converts a limit of package store, such as one that an operator has typed, and gives it name.
func LimitOf(name string, l store.Limit) Limit {
	return Limit{
		Name: name, Count: l.Count, Period: l.Period, Algorithm: l.Algorithm, Burst: l.Burst, Slices: l.Slices,
		calendar: l.Calendar,
	}
}

// Stored returns how much l allows as a limit of package store, which has no name.
func (l Limit) Stored() store.Limit {
	return store.Limit{
		Algorithm: l.Algorithm, Count: l.Count, Period: l.Period, Burst: l.Burst, Slices: l.Slices,
		Calendar: l.calendar,
	}
}

// Leaky returns l as a [LeakyBucket] whose queue holds queue units; 0 means Count.
func (l Limit) Leaky(queue int64) Limit {
	l.Algorithm, l.Burst = LeakyBucket, queue
	return l
}

// For returns a request for one unit of l by the subject that is joined from parts: For("user", "42") has the
// subject "user:42". It escapes characters that a subject cannot have, so parts may come from outside, and
// different parts never make the same subject.
func (l Limit) For(parts ...string) Request {
	return l.ForSubject(store.Subject(parts...))
}

// ForSubject is [Limit.For] for a complete subject, such as "user:42". A call with a subject that is not valid
// fails with an [ErrInvalid].
func (l Limit) ForSubject(subject string) Request {
	r := Request{store.Request{
		Key: store.Key{Subject: subject, Name: l.Name}, Limit: l.Stored(), Cost: 1, Shadow: l.Shadow,
	}}
	if l.Name != "" {
		r.asked.SetDefaults()
	}
	return r
}

// String returns the name and then the limit as [ParseLimit] reads it: "login/minute token-bucket:10/1m".
func (l Limit) String() string { return fmt.Sprintf("%s %s", l.Name, l.ForSubject("").asked.Limit) }

// Request is for some units of a limit for one subject. Make one with [Limit.For]. It is a value that can be kept
// and used again. The zero Request is denied with an [ErrInvalid].
type Request struct {
	asked store.Request
}

// RequestOf converts a request of package store, such as one that a policy makes. The name of its key becomes the
// name of the limit.
func RequestOf(r store.Request) Request {
	r.SetDefaults()
	return Request{r}
}

// Stored returns r as a request of package store.
func (r Request) Stored() store.Request { return r.asked }

// N returns r with a cost of that many units. A cost of 0 means 1. A negative cost is denied with an [ErrInvalid],
// and one that the limit never allows at once with an [ErrNeverFits].
func (r Request) N(cost int64) Request {
	if cost == 0 {
		cost = 1
	}
	r.asked.Cost = cost
	return r
}

// Leave returns r such that it is allowed only if that many units stay free after it, for callers who leave less.
// Remaining and RetryAfter of the decision are those of a request that leaves as much. More together than the limit
// allows at once is an [ErrNeverFits]. Charge, Refund and Reset ignore it.
func (r Request) Leave(units int64) Request {
	r.asked.Leave = units
	return r
}

// Token returns r with a token, which makes it safe to repeat the call: the store remembers the token of an allowed
// call for ttl, and charges the same requests with the same token only once. Text has 1 to 200 bytes, and ttl is at
// most a day; 0 means ten minutes. All requests of a call have the same token. [Limiter.Reserve] makes tokens by
// itself.
//
// Do not use a text of a client as the token: as long as it is remembered, everybody who repeats it is let through
// without a charge.
func (r Request) Token(text string, ttl time.Duration) Request {
	if ttl == 0 {
		ttl = store.DefaultTokenTTL
	}
	r.asked.Token, r.asked.TokenTTL = text, ttl
	return r
}

// Subject returns the subject of the request.
func (r Request) Subject() string { return r.asked.Key.Subject }

// Limit returns the limit of the request.
func (r Request) Limit() Limit {
	l := LimitOf(r.asked.Key.Name, r.asked.Limit)
	l.Shadow = r.asked.Shadow
	return l
}

// Cost returns the number of units of the request.
func (r Request) Cost() int64 { return r.asked.Cost }

// String returns the limit, the subject and the cost, and not the token: limit "login/minute" of "user:42", cost 1,
// token-bucket:10/1m.
func (r Request) String() string {
	return fmt.Sprintf("limit %q of %q, cost %d, %s", r.asked.Key.Name, r.asked.Key.Subject, r.asked.Cost,
		r.asked.Limit)
}
