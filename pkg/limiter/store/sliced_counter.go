package store

// slicedCounter: a sliding counter whose period is cut into slices, aligned to the epoch as windows are. The current
// slice and the Slices − 1 before it count in full, and the one before those by the share of it that is still in view:
//
//	used = oldest × (width − elapsed) ÷ width + the rest
//
// with width the period ÷ Slices, and elapsed the time since the current slice began. Only within the oldest slice are
// units assumed to have come evenly, so the error against a log is at most what that one held.
//
// The log has an entry for each slice in use, its time being the slice's number since the epoch. The twin is
// lua/sliced_counter.lua.
type slicedCounter struct{ logged }

// slicedCounterRing: a slice's number of 2 bytes, since no more than MaxSlices + 1 of them are in view, and a sum of 4.
// The oldest slice and all that came after it can hold as much as is allowed, each.
var slicedCounterRing = ringLayout{indexSize: 2, atSize: 2, sumSize: 4, maxUnits: 2 * MaxCount}

func (slicedCounter) width(s *State) int64 { return s.Limit.period() / s.Limit.Slices }

// view returns what the oldest slice in view and all later ones hold, and how much of its width is in view.
func (c slicedCounter) view(s *State, now Instant) (oldest, rest, inView, width int64) {
	width = c.width(s)
	fading := Instant(int64(now)/width - s.Limit.Slices)
	first := s.log.indexAfter(fading - 1)
	rest = s.log.sum() - s.log.sumBefore(first)
	if first < s.log.length() && s.log.entry(first).at == fading {
		oldest = s.log.unitsOf(first)
	}
	return oldest, rest - oldest, width - int64(now)%width, width
}

func (c slicedCounter) used(s *State, now Instant) int64 {
	if s.log == nil {
		return 0
	}
	oldest, rest, inView, width := c.view(s, now)
	return mulAddDivCeil(oldest, inView, 0, width) + rest
}

// The slice with the newest of the units in excess of room has to fade to what the later ones leave of room.
func (c slicedCounter) usedAtMost(s *State, room int64, now Instant) Instant {
	i, found := s.log.indexOfUnitFromNewest(room)
	if !found {
		return now
	}
	width := c.width(s)
	inView, _ := mulAddDiv(room-(s.log.sum()-s.log.entry(i).sum), width, 0, s.log.unitsOf(i))
	end := (int64(s.log.entry(i).at) + s.Limit.Slices + 1) * width
	return max(now, Instant(end-inView))
}

func (c slicedCounter) age(s *State, now Instant) {
	c.logged.age(s, now, now/Instant(c.width(s))-Instant(s.Limit.Slices)-1)
}

func (c slicedCounter) charge(s *State, cost int64) { s.log.add(cost, s.Time/Instant(c.width(s))) }

func (c slicedCounter) excess(s *State, _, left int64, now Instant) int64 {
	oldest, rest, inView, width := c.view(s, now)
	return excessOfFading(oldest, rest, inView, width, left)
}
