package store

import "github.com/limitctl/limitctl/internal/recordformat"

// slidingLog: the time of every unit is kept for one period, so that exactly the
// units in (now − period, now] count. No boundary to exploit, no approximation;
// the price is memory in proportion to the count.
//
// The twin is lua/sliding_log.lua.
type slidingLog struct{ wholeUnits }

var slidingLogDefinition = definition{
	name: "sliding-log", algorithm: SlidingLog, rule: slidingLog{}, maxCount: MaxSlidingLogCount, countsEachUnit: true,
	entries: func(l *Limit, used int64) int64 { return max(l.Count, used) },
}

// MaxRecordSize is how long a record can be, in bytes: a log of the most entries there
// can be, with the quarter to spare that a ring is laid with. A longer value is not a record.
const MaxRecordSize = recordformat.HeaderSize + 11 + (MaxSlidingLogCount+MaxSlidingLogCount/4+2)*recordformat.LogEntrySize

// slidingLogRing: an instant of 7 bytes, a sum of 3.
var slidingLogRing = ringLayout{indexSize: 4, atSize: 7, sumSize: 3, maxUnits: MaxSlidingLogCount}

func (slidingLog) used(s *State, now Instant) int64 {
	if s.log == nil {
		return 0
	}
	return s.log.unitsAfter(now - Instant(s.Limit.period()))
}

// A unit taken at t leaves the window at t + period, so used is room or less
// when the newest of the units in excess of room has left.
func (slidingLog) usedAtMost(s *State, room int64, now Instant) Instant {
	i, found := s.log.indexOfUnitFromNewest(room)
	if !found {
		return now
	}
	return max(now, s.log.entry(i).at+Instant(s.Limit.period()))
}

func (slidingLog) charge(s *State, cost int64, now Instant) {
	if s.log == nil {
		s.log = new(unitLog)
	}
	s.log.dropThrough(now - Instant(s.Limit.period()))
	s.log.add(cost, now)
	s.Time = now
}

func (slidingLog) refund(s *State, cost int64, now Instant) {
	s.log.dropThrough(now - Instant(s.Limit.period()))
	s.log.removeNewest(cost)
	s.Time = now
}

func (slidingLog) appendState(buf []byte, s *State) []byte { return slidingLogRing.append(buf, s.log) }

func (slidingLog) readState(r *recordReader, s *State) (problem string) {
	s.log, problem = slidingLogRing.read(r, 0, int64(s.Time))
	return problem
}
