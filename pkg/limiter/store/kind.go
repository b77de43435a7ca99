package store

import (
	"math"
	"math/bits"
	"time"

	"github.com/limitctl/limitctl/internal/recordformat"
)

// Kind is a way of counting, by its number in records and in requests to scripts. Every algorithm is a kind, and so
// are a sliding counter in slices and a fixed window of a calendar.
type Kind uint8

// The kinds that no Algorithm has the number of. The last one has no records: it is of limits that others decide.
const (
	slicedCounterKind   Kind = 6
	calendarWindowKind  Kind = 7
	windowFromFirstKind Kind = 8
)

// definition is what is known about a kind. lua/ has a file with its name and the same rule.
type definition struct {
	name      string
	algorithm Algorithm
	rule      rule
	version   uint8       // the first one of the record format that has the kind; 0 for the usual one
	restSize  int         // of State.Rest in a record, in bytes
	ring      *ringLayout // of a log, which a record has instead of two numbers
}

// definitions has every kind by its number, which never changes.
var definitions = [...]definition{
	TokenBucket:    {name: "token-bucket", algorithm: TokenBucket, rule: bucket{}, restSize: 7},
	LeakyBucket:    {name: "leaky-bucket", algorithm: LeakyBucket, rule: bucket{}, restSize: 7},
	FixedWindow:    {name: "fixed-window", algorithm: FixedWindow, rule: fixedWindow{}},
	SlidingLog:     {name: "sliding-log", algorithm: SlidingLog, rule: slidingLog{}, ring: &slidingLogRing},
	SlidingCounter: {name: "sliding-counter", algorithm: SlidingCounter, rule: slidingCounter{}, restSize: 4},

	slicedCounterKind: {name: "sliced-counter", algorithm: SlidingCounter, rule: slicedCounter{}, version: 2,
		ring: &slicedCounterRing},
	calendarWindowKind:  {name: "calendar-window", algorithm: FixedWindow, rule: fixedWindow{}, version: 4},
	windowFromFirstKind: {name: "window-from-first", algorithm: FixedWindow, rule: fixedWindow{}},
}

// rule is a kind's rule of counting, as pure functions on a State whose Limit it wrote: how usage fades.
type rule interface {
	// used returns the units in use at now, rounded up.
	used(s *State, now Instant) int64
	// usedAtMost returns the first instant, not before now, at which used is at most room, which is at least 0.
	usedAtMost(s *State, room int64, now Instant) Instant
	// age removes from s what no longer counts at now.
	age(s *State, now Instant)
	// charge adds cost units at s.Time, to which s was aged.
	charge(s *State, cost int64)
	// refund removes cost units at s.Time, to which s was aged: the newest first, or all if there are fewer.
	refund(s *State, cost int64)
	// excess returns how many units to refund so that exactly left of the inUse units at now stay in use.
	excess(s *State, inUse, left int64, now Instant) int64
}

// wholeUnits is for rules in which a unit counts fully until it is gone, and State.Units are those that do.
type wholeUnits struct{}

func (wholeUnits) charge(s *State, cost int64) { s.Units += cost }

func (wholeUnits) refund(s *State, cost int64) { s.Units = max(0, s.Units-cost) }

func (wholeUnits) excess(_ *State, inUse, left int64, _ Instant) int64 { return inUse - left }

// Kinds lists every kind that stores keep, in the order of their numbers.
func Kinds() []Kind {
	var kinds []Kind
	for k := Kind(TokenBucket); k.known(); k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

// known reports whether stores keep records of kind k.
func (k Kind) known() bool { return k > 0 && k < windowFromFirstKind }

// String returns the kind's name, such as "token-bucket".
func (k Kind) String() string { return definitions[k].name }

// Algorithm returns the algorithm that k is the kind of.
func (k Kind) Algorithm() Algorithm { return definitions[k].algorithm }

// RecordsOf returns the kind whose records and script k shares: a leaky bucket is a token bucket, any other itself.
func (k Kind) RecordsOf() Kind {
	if k == Kind(LeakyBucket) {
		return Kind(TokenBucket)
	}
	return k
}

// RecordSize returns the bytes of a record of kind k, with at most two numbers; 0 if the size varies.
func (k Kind) RecordSize() int {
	if definitions[k].ring != nil {
		return 0
	}
	return recordformat.HeaderSize + 4 + definitions[k].restSize
}

// HasSlices reports whether limits of kind k have more than one slice.
func (k Kind) HasSlices() bool { return k == slicedCounterKind }

// InCalendar reports whether limits of kind k are decided in windows of a calendar. A request has to say the bounds of
// its window then; see [Limit.InWindow].
func (k Kind) InCalendar() bool { return k == calendarWindowKind }

// DecidesShort reports whether a short script decides kind k, whose states are two numbers and nothing else.
func (k Kind) DecidesShort() bool { return k.RecordSize() > 0 && !k.InCalendar() }

// RecordVersion returns the version of the record format that records of kind k have.
func (k Kind) RecordVersion() uint8 { return max(recordformat.Version, definitions[k].version) }

// Kind returns the kind of l, which must be normalized.
func (l *Limit) Kind() Kind {
	switch {
	case l.Slices > 1:
		return slicedCounterKind
	case l.Calendar != nil:
		return calendarWindowKind
	case l.FromFirst:
		return windowFromFirstKind
	}
	return Kind(l.Algorithm)
}

// windows returns for how many windows, or slices, a unit counts, its own included; 0 without fixed windows.
func (l *Limit) windows() Instant {
	switch l.Kind() {
	case Kind(FixedWindow), calendarWindowKind:
		return 1
	case Kind(SlidingCounter):
		return 2
	case slicedCounterKind:
		return Instant(l.Slices) + 1
	default:
		return 0
	}
}

// CanAdvance reports whether units of the normalized l can be taken in advance: any of the latest can be given back.
func (l *Limit) CanAdvance() bool { return l.Algorithm == TokenBucket || l.windows() > 0 }

// Advance is for units that were charged in advance at an instant. They can be used or given back until end, and count
// until gone, which is 0 if that depends on other charges.
func (l *Limit) Advance(at Instant) (end, gone Instant) {
	if l.Algorithm == TokenBucket {
		return math.MaxInt64, 0
	}
	in := l.InWindow(at)
	width := in.period() / max(1, l.Slices)
	start := windowStart(at, width, in.Phase)
	return start + Instant(width), start + Instant(width)*l.windows()
}

// Leaked returns the most units in advance that can fade in span microseconds before their end.
func (l *Limit) Leaked(span int64) int64 {
	if l.Algorithm != TokenBucket {
		return 0
	}
	return mulAddDivCeil(span, l.Count, 0, l.period())
}

// FadesBy returns how long before it is unused a key under l, which must be normalized, has at most room units in
// use. It may be a microsecond short. known is false if that depends on more than the limit.
func (l *Limit) FadesBy(room int64) (before time.Duration, known bool) {
	switch l.Kind() {
	case Kind(FixedWindow), calendarWindowKind:
		return 0, true
	case Kind(TokenBucket), Kind(LeakyBucket):
		wait, _ := mulAddDiv(room, l.period(), 0, l.Count)
		return time.Duration(wait) * time.Microsecond, true
	default:
		return 0, false
	}
}

// mulAddDiv returns the quotient and the remainder of (a·b + c) ÷ d, exactly: the product may have 126 bits. a, b and
// c must not be negative and d must be positive. A quotient too large for an int64 is given as MaxInt64, remainder 0.
//
// The same function stands in lua/frame.lua, there in 53-bit steps.
func mulAddDiv(a, b, c, d int64) (quotient, remainder int64) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	low, carry := bits.Add64(low, uint64(c), 0)
	high += carry
	if high == 0 && low < 1<<52 {
		// A float's division is several times faster. Its rounding, less than 1/d where the product is below 2⁵²,
		// cannot carry the quotient up to the next whole number.
		if low < uint64(d) {
			return 0, int64(low)
		}
		quotient = int64(float64(low) / float64(d))
		return quotient, int64(low) - quotient*d
	}
	if high >= uint64(d) {
		return math.MaxInt64, 0
	}
	q, r := bits.Div64(high, low, uint64(d))
	if q > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(q), int64(r)
}

// mulAddDivCeil is mulAddDiv rounded up, at most to MaxInt64.
func mulAddDivCeil(a, b, c, d int64) int64 {
	q, r := mulAddDiv(a, b, c, d)
	if r > 0 && q < math.MaxInt64 {
		q++
	}
	return q
}
