package store

// The rule of limits that others decide: how their limiters count where ours do not.

// windowFromFirstKind is in no record, so its number may change.
const windowFromFirstKind Kind = 8

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
