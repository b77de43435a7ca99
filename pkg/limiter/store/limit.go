package store

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Algorithm names one of the ways to count usage against a limit.
// Its numeric value is part of the record format and never changes.
type Algorithm uint8

// The algorithms. [Limit.Normalize] turns the zero Algorithm into the default, TokenBucket.
const (
	TokenBucket Algorithm = 1 + iota
	LeakyBucket
	FixedWindow
	SlidingLog
	SlidingCounter
	// The next is 9; see the kinds.
)

// Algorithms lists every algorithm in the order of their numeric values.
func Algorithms() []Algorithm {
	return []Algorithm{TokenBucket, LeakyBucket, FixedWindow, SlidingLog, SlidingCounter}
}

// AlgorithmNames lists the names of all algorithms, in the order of [Algorithms].
func AlgorithmNames() []string {
	var names []string
	for _, a := range Algorithms() {
		names = append(names, a.String())
	}
	return names
}

// String returns the algorithm's name as it is written in limits and keys.
func (a Algorithm) String() string {
	if a.known() {
		return definitions[a].name
	}
	return fmt.Sprintf("algorithm(%d)", uint8(a))
}

func (a Algorithm) known() bool { return a >= TokenBucket && a <= SlidingCounter }

// HasBurst reports whether a limit of this algorithm has a burst of its own. The window algorithms have none: they
// allow their count at once. The zero Algorithm has one, since it means TokenBucket.
func (a Algorithm) HasBurst() bool { return a <= LeakyBucket }

// HasSlices reports whether a limit of this algorithm can have slices.
func (a Algorithm) HasSlices() bool { return a == SlidingCounter }

// MaxCount returns the greatest count of a limit of this algorithm.
func (a Algorithm) MaxCount() int64 {
	if a == SlidingLog {
		return MaxSlidingLogCount
	}
	return MaxCount
}

// Bounds of a limit. Within them every decision is exact in the 53 bits of a Lua number.
const (
	MinCount           = 1
	MaxCount           = 1_000_000_000 // also the greatest burst
	MaxSlidingLogCount = 1_000_000     // a log stores every unit's time
	MaxSlices          = 3600
	MinPeriod          = time.Millisecond
	MaxPeriod          = 366 * 24 * time.Hour
	// MaxDrain bounds the time in which a full bucket empties, so that its end is a valid instant.
	MaxDrain = 100 * 366 * 24 * time.Hour
	// MaxUsage is the most units of a key in use; only a Charge or a Settle can exceed the capacity.
	MaxUsage = MaxCount
)

// Limit is how much is allowed: Count units per Period, decided by Algorithm. The zero Limit is invalid.
type Limit struct {
	// Algorithm decides how usage is counted; zero means TokenBucket.
	Algorithm Algorithm
	// Count is the number of units allowed per Period, from MinCount to MaxCount (MaxSlidingLogCount for SlidingLog).
	Count int64
	// Period is the time that Count refers to: whole microseconds, from MinPeriod to MaxPeriod.
	Period time.Duration
	// Burst is what a full token bucket allows at once, or the length of a leaky bucket's queue in units; zero means
	// Count, which the window algorithms allow at once.
	Burst int64
	// Slices is the number of slices, up to MaxSlices and whole microseconds long, into which a sliding counter divides
	// its period; zero means 1.
	Slices int64
	// Calendar has the windows of a FixedWindow be days, weeks, months, quarters or years of a time zone; nil for
	// windows of Period. Then Period is the length of the longest usual one. [ParseLimit] makes it.
	Calendar *Calendar

	// FromFirst: the windows of a FixedWindow begin with the first request after the end of the last window. Such
	// limits are of others, and stores refuse them; see [Limit.CheckStored].
	FromFirst bool
	// Phase is when the window begins, since the epoch, of a limit in a window of its Calendar.
	Phase time.Duration
}

// Normalize returns l with its defaults filled in. The error is an [ErrInvalid] that says which bound l breaks.
func (l Limit) Normalize() (Limit, error) {
	l.setDefaults()
	return l, l.check()
}

func (l *Limit) setDefaults() {
	if l.Algorithm == 0 {
		l.Algorithm = TokenBucket
	}
	if l.Burst == 0 {
		l.Burst = l.Count
	}
	if l.Slices == 1 && l.Algorithm.HasSlices() {
		l.Slices = 0
	}
}

// check returns an error for the first bound that the normalized limit breaks. For a valid one it allocates nothing.
func (l *Limit) check() error {
	if !l.Algorithm.known() {
		return Invalidf("unknown algorithm number %d; there are %d to %d", uint8(l.Algorithm), TokenBucket,
			SlidingCounter)
	}
	most, hasBurst := l.Algorithm.MaxCount(), l.Algorithm.HasBurst()
	longest := MaxPeriod
	if l.Calendar != nil {
		longest = MaxWindow
	}
	switch {
	case l.Count < MinCount || l.Count > most:
		return Invalidf("count %d of a %s limit is out of range; it must be from %d to %d", l.Count, l.Algorithm,
			MinCount, most)
	case l.Period < MinPeriod || l.Period > longest:
		return Invalidf("period %s is out of range; it must be from %s to %s", FormatPeriod(l.Period),
			FormatPeriod(MinPeriod),
			FormatPeriod(longest))
	case l.Period%time.Microsecond != 0:
		return Invalidf("period %s is not a whole number of microseconds", l.Period)
	case l.Slices != 0 && !l.Algorithm.HasSlices():
		return Invalidf("a %s limit has no slices; leave slices=%d out, or choose %s", l.Algorithm, l.Slices,
			SlidingCounter)
	case l.Slices < 0 || l.Slices > MaxSlices:
		return Invalidf("slices %d is out of range; it must be from 1 to %d", l.Slices, MaxSlices)
	case l.Slices != 0 && l.period()%l.Slices != 0:
		return Invalidf("a period of %s cannot be cut into %d slices of whole microseconds", FormatPeriod(l.Period),
			l.Slices)
	}
	if l.Calendar != nil {
		if err := l.checkCalendar(); err != nil {
			return err
		}
	}
	switch {
	case l.FromFirst && (l.Algorithm != FixedWindow || l.Calendar != nil):
		return Invalidf("a %s limit has no windows that begin with a request; from=first is for a %s without tz",
			l.Algorithm, FixedWindow)
	case l.Phase != 0 && l.Calendar == nil:
		return Invalidf("windows of a %s limit have no phase without a calendar", l.Algorithm)
	case hasBurst && (l.Burst < 1 || l.Burst > MaxCount):
		return Invalidf("burst %d is out of range; it must be from 1 to %d", l.Burst, MaxCount)
	case !hasBurst && l.Burst != l.Count:
		return Invalidf("a %s limit has no burst; leave it out, its count of %d is allowed at once", l.Algorithm,
			l.Count)
	case l.Burst > l.Count && l.drainsTooSlowly(l.Burst):
		return Invalidf("a burst of %d at %d/%s takes more than %s to drain; lower the burst or raise the count",
			l.Burst, l.Count, FormatPeriod(l.Period), FormatPeriod(MaxDrain))
	}
	return nil
}

// CheckStored returns an [ErrInvalid] if l is a limit that no store keeps, since it describes what others decide.
func (l *Limit) CheckStored() error {
	if !l.FromFirst {
		return nil
	}
	return Invalidf("limit %q is of somebody else's limiter, and no store here decides it; leave %s out", l, fromFirst)
}

// countsLike reports whether usage under l keeps its age under other.
func (l *Limit) countsLike(other *Limit) bool {
	return l.Algorithm == other.Algorithm && l.Period == other.Period && l.Slices == other.Slices &&
		l.FromFirst == other.FromFirst && l.Phase == other.Phase
}

// drainsTooSlowly reports whether a bucket of l with that many units in it takes longer than MaxDrain to empty.
func (l *Limit) drainsTooSlowly(units int64) bool {
	drain, _ := mulAddDiv(units, l.period(), 0, l.Count)
	return drain > MaxDrain.Microseconds()
}

// CheckUsage returns an [ErrInvalid] if that many units cannot be in use under limit, which must be normalized.
func CheckUsage(limit *Limit, units int64) error {
	switch most := limit.Algorithm.MaxCount(); {
	case units > most:
		return Invalidf("%d units of limit %s would be in use; at most %d can be", units, limit, most)
	case limit.Algorithm.HasBurst() && limit.drainsTooSlowly(units):
		return Invalidf("%d units of limit %s would be in use for more than %s; charge less, or raise the count", units,
			limit,
			FormatPeriod(MaxDrain))
	}
	return nil
}

// scale returns l with another count, and a burst that is low enough for MaxDrain, within the bounds of limits.
func (l Limit) scale(of func(units int64) int64) Limit {
	most, burst := l.Algorithm.MaxCount(), l.Burst
	l.Count = min(max(MinCount, of(l.Count)), most)
	if burst == 0 {
		return l // it follows the count
	}
	if l.Burst = min(max(1, of(burst)), most); l.Burst > l.Count && l.drainsTooSlowly(l.Burst) {
		longest, _ := mulAddDiv(l.Count, int64(MaxDrain/time.Microsecond), 0, l.period())
		l.Burst = min(l.Burst, longest)
	}
	return l
}

// period returns the period in microseconds, the unit of all arithmetic.
func (l *Limit) period() int64 { return int64(l.Period / time.Microsecond) }

// Capacity returns the most units that l allows at one instant: the burst of a bucket, the count of a window.
func (l Limit) Capacity() int64 {
	if l.Burst == 0 || !l.Algorithm.HasBurst() {
		return l.Count
	}
	return l.Burst
}

// Options as they are written. The last one describes limits of others.
const (
	zoneOption  = "tz="
	untilOption = "until="
	fromFirst   = "from=first"
)

// DefaultName returns the name of an unnamed limit: "token-bucket/1m", "sliding-counter/1h,60" with slices or
// "fixed-window/1mo,Europe/Berlin". The count is not part of it, so that raising the count keeps what was used.
func (l Limit) DefaultName() string {
	l.setDefaults()
	name := l.Algorithm.String() + "/" + l.PeriodText()
	if l.Slices > 1 {
		name += "," + strconv.FormatInt(l.Slices, 10)
	}
	if l.Calendar != nil {
		name += "," + strings.TrimPrefix(l.calendarOption(), zoneOption)
	}
	if l.FromFirst {
		name += ",first"
	}
	return name
}

// String returns l as [ParseLimit] reads it, with its algorithm: "token-bucket:10/1m,burst=20".
func (l Limit) String() string {
	if l.Algorithm == 0 {
		l.Algorithm = TokenBucket
	}
	s := fmt.Sprintf("%s:%d/%s", l.Algorithm, l.Count, l.PeriodText())
	if l.Burst != 0 && l.Burst != l.Count {
		s += fmt.Sprintf(",burst=%d", l.Burst)
	}
	if l.Slices > 1 {
		s += fmt.Sprintf(",slices=%d", l.Slices)
	}
	if l.Calendar != nil {
		s += "," + l.calendarOption()
	}
	if l.FromFirst {
		s += "," + fromFirst
	}
	return s
}

// PeriodText returns the period of l as it is written: that of a calendar, such as "1mo", or as [FormatPeriod] has it.
func (l *Limit) PeriodText() string {
	if l.Calendar != nil && !l.isRecorded() {
		return l.Calendar.Unit
	}
	return FormatPeriod(l.Period)
}

// FormatPeriod writes a duration in the shortest form that [ParsePeriod] reads: "1d", "36h", "1m30s", "500ms".
func FormatPeriod(period time.Duration) string {
	const day = 24 * time.Hour
	if period > 0 && period%day == 0 {
		return strconv.FormatInt(int64(period/day), 10) + "d"
	}
	text := period.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
