package limiter

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Algorithm is a way to count what is used of a limit. The zero Algorithm stands for
// [TokenBucket].
type Algorithm = store.Algorithm

// The algorithms.
const (
	// TokenBucket lets a burst through at once and refills evenly, Count in each Period.
	TokenBucket Algorithm = store.TokenBucket
	// LeakyBucket is a queue that is served at a constant rate: an allowed request has a Delay,
	// which is its turn. Burst is the length of the queue. It is fair between processes.
	LeakyBucket Algorithm = store.LeakyBucket
	// FixedWindow counts in windows that are aligned to the epoch. At the border of two windows
	// it can let through twice the count.
	FixedWindow Algorithm = store.FixedWindow
	// SlidingLog is exact for every window. It stores the time of each unit.
	SlidingLog Algorithm = store.SlidingLog
	// SlidingCounter estimates a sliding window from the current and the previous one, or, with
	// Slices, from many smaller ones.
	SlidingCounter Algorithm = store.SlidingCounter
)

// Limit is how much is allowed: Count units in each Period, counted by Algorithm. The zero Limit
// is invalid: whatever is asked under it is denied with an [ErrInvalid].
type Limit struct {
	// Name tells the limits of one subject apart, as in "login/minute". It is a part of the key
	// under which the usage is kept. Two limits that have the same Name share their usage, which fades by the limit that
	// charged last: a looser one gives units back to a stricter one. So give each limit a Name of its own. It cannot be
	// empty.
	Name string
	// Count is the number of units allowed in each Period, from 1 to 1,000,000,000 (for a
	// [SlidingLog] to 1,000,000).
	Count int64
	// Period is the time that Count is about: whole microseconds, from 1 ms to 366 days.
	Period time.Duration
	// Algorithm is how usage is counted. The default is [TokenBucket].
	Algorithm Algorithm
	// Burst is what a token bucket allows at once, or the length of a leaky bucket's queue, in
	// units. The default is Count. The other algorithms have none.
	Burst int64
	// Slices is the number of parts that a [SlidingCounter] cuts its period into, from 1 to 3600.
	// The default is 1. More slices are more exact and take more memory.
	Slices int64
	// Shadow tries the limit out: it is counted, its decision says what it would have answered,
	// and it never denies.
	Shadow bool

	_ struct{} // fields are written with their names, so that there can be more
}

// Per returns the limit of count units in each period, counted by a token bucket. Bounds are
// checked when the limit is used.
func Per(name string, count int64, period time.Duration) Limit {
	return Limit{Name: name, Count: count, Period: period}
}

// ParseLimit reads a limit as it is written on the command line and in policies, such as
// "10/1m", "100/h,burst=20" or "sliding-counter:1000/1d,slices=24", and calls it name. The error
// is an [ErrInvalid] that says what is wrong.
func ParseLimit(name, text string) (Limit, error) {
	parsed, err := store.ParseLimit(text)
	if err != nil {
		return Limit{}, err
	}
	if err := parsed.CheckStored(); err != nil {
		return Limit{}, err
	}
	if name == "" {
		return Limit{}, unnamed(parsed)
	}
	limit := limitOf(parsed)
	limit.Name = name
	return limit, nil
}

// unnamed is the error about a limit without a name.
func unnamed(l store.Limit) error {
	return store.Invalidf("the limit %s has no name; name it, so that it shares no key with another limit", l)
}

func limitOf(l store.Limit) Limit {
	return Limit{Count: l.Count, Period: l.Period, Algorithm: l.Algorithm, Burst: l.Burst, Slices: l.Slices}
}

// Leaky returns l as a [LeakyBucket] whose queue has room for that many units; 0 is for Count.
func (l Limit) Leaky(queue int64) Limit {
	l.Algorithm, l.Burst = LeakyBucket, queue
	return l
}

// For returns a request for one unit of l by the subject that parts make: For("user", "42") is
// about the subject "user:42". Characters that a subject cannot have are escaped, so parts may
// come from outside, and different parts never make the same subject.
func (l Limit) For(parts ...string) Request {
	return l.ForSubject(store.Subject(parts...))
}

// ForSubject is [Limit.For] for a subject that is written already, such as "user:42". A subject
// that no key can have is an [ErrInvalid] when it is asked about.
func (l Limit) ForSubject(subject string) Request {
	r := Request{store.Request{
		Key:    store.Key{Subject: subject, Name: l.Name},
		Limit:  store.Limit{Algorithm: l.Algorithm, Count: l.Count, Period: l.Period, Burst: l.Burst, Slices: l.Slices},
		Cost:   1,
		Shadow: l.Shadow,
	}}
	if l.Name != "" {
		r.asked.SetDefaults()
	}
	return r
}

// String returns the limit as [ParseLimit] reads it, behind its name: "login/minute token-bucket:10/1m".
func (l Limit) String() string { return fmt.Sprintf("%s %s", l.Name, l.ForSubject("").asked.Limit) }

// Request asks for some units of a limit for one subject. Make one with [Limit.For]. It is a value
// that can be kept and asked again. The zero Request is denied with an [ErrInvalid].
type Request struct {
	asked store.Request
}

// RequestOf returns a request of package store, such as a policy makes, as this package has it. The limit is
// called as its key is.
func RequestOf(r store.Request) Request {
	r.SetDefaults()
	return Request{r}
}

// Stored returns r as package store has it.
func (r Request) Stored() store.Request { return r.asked }

// N returns r for cost units. A cost of 0 means 1. A negative cost is denied with an [ErrInvalid],
// and one that the limit never allows at once with an [ErrNeverFits].
func (r Request) N(cost int64) Request {
	if cost == 0 {
		cost = 1
	}
	r.asked.Cost = cost
	return r
}

// Token returns r with a token, which makes it safe to ask again: what was allowed with it is
// remembered for ttl, and the same requests with the same token charge nothing more. Text has 1 to
// 200 bytes, and ttl is up to a day; a ttl of 0 means ten minutes. All requests of a call have the
// same token. [Limiter.Reserve] makes tokens by itself.
//
// Do not take a token from a client as it is: whoever repeats it is let through again without a charge, for
// as long as it is remembered.
func (r Request) Token(text string, ttl time.Duration) Request {
	r.asked.Token, r.asked.TokenTTL = text, ttl
	r.asked.SetDefaults()
	return r
}

// Subject returns who is limited.
func (r Request) Subject() string { return r.asked.Key.Subject }

// Limit returns the limit that is asked.
func (r Request) Limit() Limit {
	l := limitOf(r.asked.Limit)
	l.Name, l.Shadow = r.asked.Key.Name, r.asked.Shadow
	return l
}

// Cost returns the number of units that are asked for.
func (r Request) Cost() int64 { return r.asked.Cost }
