package store

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Breaker has the settings of a layer that stops calling a store that is away, until a recovery check finds it back. A
// zero field means its default.
type Breaker struct {
	// Failures is the number of failures in a row that opens it; the default is 5. A failure is an error that [IsAway]
	// accepts, or an answer that took longer than Slow. A [BatchError] is one failure, however many calls share it.
	Failures int
	// Slow is the longest time of a good answer; the default is 1 s. A caller that gives up earlier says nothing.
	Slow time.Duration
	// Pause is the time from opening until a call, which still fails, starts the first recovery check; the default is
	// 500 ms. It doubles with each check that fails, up to MaxPause, whose default is 10 s.
	Pause, MaxPause time.Duration
}

// WithDefaults returns b with its zero fields filled in. It raises a MaxPause below Pause to Pause.
func (b Breaker) WithDefaults() Breaker {
	b.Failures = orDefault(b.Failures, 5)
	b.Slow = orDefault(b.Slow, time.Second)
	b.Pause = orDefault(b.Pause, 500*time.Millisecond)
	b.MaxPause = max(orDefault(b.MaxPause, 10*time.Second), b.Pause)
	return b
}

// BreakerState is the state of a [Breaker].
type BreakerState uint8

const (
	// BreakerClosed: calls go to the store.
	BreakerClosed BreakerState = iota
	// BreakerOpen: calls fail at once with an [ErrUnavailable].
	BreakerOpen
	// BreakerHalfOpen: a recovery check is under way, and other calls fail as if it were open.
	BreakerHalfOpen
)

// String returns "closed", "open" or "half-open".
func (s BreakerState) String() string { return [...]string{"closed", "open", "half-open"}[s] }

// BreakerChange is a change of a breaker's state.
type BreakerChange struct {
	// Shard is the shard of a [Sharded] store, empty for others. The breaker of a lost shard changes to closed.
	Shard    string
	From, To BreakerState
	At       time.Time
	// Reason is what opened the breaker or kept it open; nil otherwise.
	Reason error
}

// Leases has the settings of a layer that takes units of a busy key in advance and hands them out without a round
// trip. It never exceeds the limit, but can deny units that other processes hold. A zero field means its default.
type Leases struct {
	// Max is the most units of a key that a process holds, by default 1000, and at most a tenth of what the limit
	// allows at once: as many as are taken in a quarter to a half of a Term.
	Max int64
	// Term is the longest time that units are held; the default is 100 ms.
	Term time.Duration
}

// WithDefaults returns l with its zero fields filled in.
func (l Leases) WithDefaults() Leases {
	return Leases{Max: orDefault(l.Max, 1000), Term: orDefault(l.Term, 100*time.Millisecond)}
}

// DenialMemory has the settings of a layer that repeats the store's denials without a round trip until their
// RetryAfter is over. It never allows anything. A zero field means its default.
type DenialMemory struct {
	// MaxStale is the longest time of a remembered denial, by default 1 s: so late it can notice units given back.
	MaxStale time.Duration
	// Keys is the approximate number of keys to remember, at about 300 bytes each; the default is 16,384.
	Keys int
}

// WithDefaults returns m with its zero fields filled in.
func (m DenialMemory) WithDefaults() DenialMemory {
	return DenialMemory{MaxStale: orDefault(m.MaxStale, time.Second), Keys: orDefault(m.Keys, 16_384)}
}

// orDefault returns value, or byDefault if value is not positive.
func orDefault[T ~int | ~int64](value, byDefault T) T {
	if value <= 0 {
		return byDefault
	}
	return value
}

// FailurePolicy says how requests are decided while the store is away.
type FailurePolicy uint8

const (
	// FailOnError returns the error; the caller decides.
	FailOnError FailurePolicy = iota
	// AllowOnError lets requests through unguarded ("fail open").
	AllowOnError
	// DenyOnError denies requests ("fail closed").
	DenyOnError
	// LocalOnError lets a fallback store decide, with a share of each limit ("fail soft").
	LocalOnError
)

var failurePolicies = []string{"fail", "allow", "deny", "local"}

// String returns the policy's name: "fail", "allow", "deny" or "local".
func (p FailurePolicy) String() string { return failurePolicies[p] }

// ParseFailurePolicy reads "fail", "allow", "deny" or "local".
func ParseFailurePolicy(text string) (FailurePolicy, error) {
	if i := slices.Index(failurePolicies, text); i >= 0 {
		return FailurePolicy(i), nil
	}
	return 0, Invalidf("unknown failure policy %q; it is fail, allow, deny or local", text)
}

// Share is a part of a limit, in millionths, from 1 to [WholeShare].
type Share uint32

const (
	// WholeShare is all of a limit, 100 %.
	WholeShare Share = 1_000_000
	// DefaultShare is the default share of a fallback store in each limit, 25 %.
	DefaultShare Share = WholeShare / 4
)

// percent is the share of 1 %.
const percent = WholeShare / 100

// ParseShare reads a share in percent ("12.5%") or as a fraction ("0.2"). The error is an [ErrInvalid] that quotes
// text.
func ParseShare(text string) (Share, error) {
	number, inPercent := strings.CutSuffix(text, "%")
	one := WholeShare
	if inPercent {
		one = percent
	}
	if part, ok := ParseDecimal(number); ok {
		part.Mul(part, new(big.Rat).SetInt64(int64(one)))
		if part.IsInt() && part.Sign() > 0 && part.Cmp(new(big.Rat).SetInt64(int64(WholeShare))) <= 0 {
			return Share(part.Num().Int64()), nil
		}
	}

	return 0, Invalidf("share %q is not a part of a limit; write it like 20%% or 0.2, more than 0 and at most 100%%, "+
		"with at most four decimals of a percent", text)
}

// String returns s in percent, as [ParseShare] reads it: "25%", "12.5%".
func (s Share) String() string {
	text := strconv.FormatFloat(float64(s)/float64(percent), 'f', 4, 64) // exact to its last digit
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + "%"
}

// Of returns the share s of l: of its count and its burst, each rounded down and at least 1. The burst is smaller if
// otherwise, because of the rounding, the bucket took more than [MaxDrain] to empty.
func (s Share) Of(l Limit) Limit {
	return l.scale(func(units int64) int64 { return units * int64(s) / int64(WholeShare) })
}
