package store

import "time"

// fixedWindow: time is cut into windows of one period, aligned to the epoch,
// and each allows count units. Simple and small, but a caller can use one
// window's count just before a boundary and the next one's just after it: up to
// twice the count within one period.
//
// Units were used in the window that holds s.Time.
// The twin is lua/fixed_window.lua.
type fixedWindow struct{ wholeUnits }

var fixedWindowDefinition = definition{
	name: "fixed-window", algorithm: FixedWindow, rule: fixedWindow{}, maxCount: MaxCount, stateSize: 4,
	ahead:   wholeWindows{windows: 1},
	fadesBy: fixedWindow{}.fadesBy,
}

// windowStart returns the start of the window that holds at.
func windowStart(at Instant, period int64) Instant {
	return at - at%Instant(period)
}

func (fixedWindow) end(s *State) Instant {
	period := s.Limit.period()
	return windowStart(s.Time, period) + Instant(period)
}

func (w fixedWindow) used(s *State, now Instant) int64 {
	if now >= w.end(s) {
		return 0
	}
	return s.Units
}

func (w fixedWindow) usedAtMost(s *State, room int64, now Instant) Instant {
	if s.Units <= room {
		return now
	}
	return max(now, w.end(s))
}

// All units of a window fade at its end.
func (fixedWindow) fadesBy(Limit, int64) time.Duration { return 0 }

func (w fixedWindow) charge(s *State, cost int64, now Instant) {
	s.Units = w.used(s, now) + cost
	s.Time = now
}

func (w fixedWindow) refund(s *State, cost int64, now Instant) {
	s.Units = max(0, w.used(s, now)-cost)
	s.Time = now
}

// wholeWindows is for rules by which a unit does not fade before the window, or the slice,
// that it was charged in has ended, and counts for so many of them.
type wholeWindows struct{ windows int64 }

func (wholeWindows) width(l *Limit) int64 { return l.period() / max(1, l.Slices) }

func (w wholeWindows) End(l *Limit, at Instant) Instant {
	return windowStart(at, w.width(l)) + Instant(w.width(l))
}

func (wholeWindows) Leaked(*Limit, int64) int64 { return 0 }

func (w wholeWindows) Gone(l *Limit, at Instant) Instant {
	return windowStart(at, w.width(l)) + Instant(w.width(l)*(w.windows+max(0, l.Slices-1)))
}

func (fixedWindow) appendState(buf []byte, s *State) []byte { return appendUint(buf, s.Units, 4) }

func (fixedWindow) readState(r *recordReader, s *State) (problem string) {
	if s.Units = r.uint(4); s.Units > MaxCount {
		return usageOutOfRange
	}
	return ""
}

// windowFromFirst: a window begins with the first unit that is charged, lasts one period, and
// allows count units. The next one begins with the first unit after its end. So count INCR
// with EXPIRE, and many limiters built on them. It describes limits that others decide:
// Redis and file stores refuse it, since the aligned windows of [FixedWindow] take less.
//
// Units were used in the window that began at Rest.
type windowFromFirst struct{ wholeUnits }

// windowFromFirstKind is in no record, so its number may change.
const windowFromFirstKind Kind = 7

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

// appendState and readState are for records, which it has none of.
func (windowFromFirst) appendState([]byte, *State) []byte {
	panic("limiter: a limit of others has no record")
}

func (windowFromFirst) readState(*recordReader, *State) (problem string) {
	return "no record is of a limit that others decide"
}
