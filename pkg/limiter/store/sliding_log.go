package store

// slidingLog: the time of every unit is kept for one period, so that exactly the units in (now − period, now] count. No
// boundary to exploit, no approximation; the price is memory in proportion to the count.
//
// The twin is lua/sliding_log.lua.
type slidingLog struct{ logged }

// slidingLogRing: an instant of 7 bytes, a sum of 3.
var slidingLogRing = ringLayout{indexSize: 4, atSize: 7, sumSize: 3, maxUnits: MaxSlidingLogCount}

func (slidingLog) used(s *State, now Instant) int64 {
	if s.log == nil {
		return 0
	}
	return s.log.sum() - s.log.sumBefore(s.log.indexAfter(now-Instant(s.Limit.period())))
}

// A unit of t leaves the window at t + period: room is enough when the newest of the units in excess has left.
func (slidingLog) usedAtMost(s *State, room int64, now Instant) Instant {
	i, found := s.log.indexOfUnitFromNewest(room)
	if !found {
		return now
	}
	return max(now, s.log.entry(i).at+Instant(s.Limit.period()))
}

func (l slidingLog) age(s *State, now Instant) { l.logged.age(s, now, now-Instant(s.Limit.period())) }

func (slidingLog) charge(s *State, cost int64) { s.log.add(cost, s.Time) }

func (slidingLog) excess(_ *State, inUse, left int64, _ Instant) int64 { return inUse - left }

// logged is for rules that keep a log.
type logged struct{}

// age forgets the entries up to one, in a log that is there then.
func (logged) age(s *State, now, last Instant) {
	if s.log == nil {
		s.log = new(unitLog)
	}
	s.log.dropThrough(last)
	s.Time = now
}

func (logged) refund(s *State, cost int64) { s.log.removeNewest(cost) }
