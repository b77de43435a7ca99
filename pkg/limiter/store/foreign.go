package store

import "time"

// The rules of limits that others decide: how their limiters count where ours do not.

// Their kinds are in no record, so these numbers may change.
const (
	windowFromFirstKind Kind = 8 + iota
	counterFromFirstKind
	refilledBucketKind
)

// noRecord is for rules of limits that others decide. No record is of them.
type noRecord struct{}

func (noRecord) appendState([]byte, *State) []byte {
	panic("limiter: a limit of others has no record")
}

func (noRecord) readState(*recordReader, *State) (problem string) {
	return "no record is of a limit that others decide"
}

// windowFromFirst: a window begins with the first unit that is charged, lasts one period, and
// allows count units. The next one begins with the first unit after its end. So count INCR
// with EXPIRE, and many limiters built on them. It describes limits that others decide:
// Redis and file stores refuse it, since the aligned windows of [FixedWindow] take less.
//
// Units were used in the window that began at Rest.
type windowFromFirst struct {
	wholeUnits
	noRecord
}

var windowFromFirstDefinition = definition{
	name: "window-from-first", algorithm: FixedWindow, rule: windowFromFirst{}, maxCount: MaxCount, described: true,
}

func (windowFromFirst) end(s *State) Instant { return Instant(s.Rest + s.Limit.period()) }

func (w windowFromFirst) used(s *State, now Instant) int64 {
	if now >= w.end(s) {
		return 0
	}
	return s.Units
}

func (w windowFromFirst) usedAtMost(s *State, room int64, now Instant) Instant {
	if s.Units <= room {
		return now
	}
	return max(now, w.end(s))
}

func (w windowFromFirst) charge(s *State, cost int64, now Instant) {
	used := w.used(s, now)
	if used == 0 {
		s.Rest = int64(now)
	}
	s.Units, s.Time = used+cost, now
}

func (w windowFromFirst) refund(s *State, cost int64, now Instant) {
	s.Units, s.Time = max(0, w.used(s, now)-cost), now
}

// counterFromFirst: the windows of slidingCounter, which follow each other from a key's first request on, and from
// the first one after two idle periods. What is left of the window before is rounded down. So count HAProxy's rates.
//
// Units (current) were used in the window that began at Time, Rest (previous) in the one before.
type counterFromFirst struct{ noRecord }

var counterFromFirstDefinition = definition{
	name: "counter-from-first", algorithm: SlidingCounter, rule: counterFromFirst{}, maxCount: MaxCount, described: true,
}

// windows returns what was used in the window that holds now and in the one before, and when the former began.
func (counterFromFirst) windows(s *State, now Instant) (previous, current int64, start Instant) {
	period := Instant(s.Limit.period())
	switch elapsed := now - s.Time; {
	case elapsed < period:
		return s.Rest, s.Units, s.Time
	case elapsed < 2*period:
		return s.Units, 0, s.Time + period
	}
	return 0, 0, now
}

func (c counterFromFirst) used(s *State, now Instant) int64 {
	previous, current, start := c.windows(s, now)
	period := s.Limit.period()
	share, _ := mulAddDiv(previous, period-int64(now-start), 0, period)
	return share + current
}

func (c counterFromFirst) usedAtMost(s *State, room int64, now Instant) Instant {
	previous, current, start := c.windows(s, now)
	period := s.Limit.period()
	if current > room {
		previous, current, start = current, 0, start+Instant(period)
	}
	if previous <= room-current {
		return max(now, start)
	}
	// The share, rounded down, is less than room − current + 1.
	inView := mulAddDivCeil(room-current+1, period, 0, previous) - 1
	return max(now, start+Instant(period-inView))
}

func (c counterFromFirst) charge(s *State, cost int64, now Instant) {
	s.Rest, s.Units, s.Time = c.windows(s, now)
	s.Units += cost
}

func (c counterFromFirst) refund(s *State, cost int64, now Instant) {
	s.Rest, s.Units, s.Time = c.windows(s, now)
	fromCurrent := min(cost, s.Units)
	s.Units -= fromCurrent
	s.Rest = max(0, s.Rest-(cost-fromCurrent))
}

func (c counterFromFirst) excess(s *State, _, left int64, now Instant) int64 {
	previous, current, start := c.windows(s, now)
	period := s.Limit.period()
	inView := period - int64(now-start)
	if share, _ := mulAddDiv(previous, inView, 0, period); share <= left {
		return share + current - left
	}
	stay := mulAddDivCeil(left+1, period, 0, inView) - 1
	return current + previous - stay
}

// refilledBucket: a bucket whose units come back at intervals since its key's first request, many at once. So count
// Bucket4j with an interval refill, and limiters that fill a quota up by a timer.
//
// Units were used at Time, and the first interval began at Rest.
type refilledBucket struct {
	wholeUnits
	noRecord
}

var refilledBucketDefinition = definition{
	name: "refilled-bucket", algorithm: TokenBucket, rule: refilledBucket{}, hasBurst: true, maxCount: MaxCount, described: true,
}

// refill returns the length of an interval, and what comes back at its end.
func (refilledBucket) refill(s *State) (interval, units int64) {
	return int64(s.Limit.Refill / time.Microsecond), s.Limit.RefillUnits()
}

func (b refilledBucket) used(s *State, now Instant) int64 {
	interval, units := b.refill(s)
	ends := (int64(now)-s.Rest)/interval - (int64(s.Time)-s.Rest)/interval
	if ends > s.Units/units {
		return 0
	}
	return max(0, s.Units-ends*units)
}

func (b refilledBucket) usedAtMost(s *State, room int64, now Instant) Instant {
	if s.Units <= room {
		return now
	}
	interval, units := b.refill(s)
	ends := (s.Units - room + units - 1) / units
	return max(now, Instant(s.Rest+((int64(s.Time)-s.Rest)/interval+ends)*interval))
}

func (b refilledBucket) charge(s *State, cost int64, now Instant) {
	if s.Rest == 0 {
		s.Rest = int64(now)
	}
	s.Units, s.Time = b.used(s, now)+cost, now
}

func (b refilledBucket) refund(s *State, cost int64, now Instant) {
	s.Units, s.Time = max(0, b.used(s, now)-cost), now
}
