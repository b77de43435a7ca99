package store

// slidingCounter: the windows of fixedWindow, but the previous one still counts by the share of it that a window ending
// now would cover:
//
//	used = previous × (period − elapsed) ÷ period + current
//
// with elapsed the time since the current window began. Two numbers stand for a log, on the assumption that the
// previous window's units came evenly.
//
// Units (current) were used in the window that holds s.Time, Rest (previous) in the one before. The twin is
// lua/sliding_counter.lua.
type slidingCounter struct{ wholeUnits }

// windows returns what was used in the window that holds now and in the one before, and when the former began.
func (slidingCounter) windows(s *State, now Instant) (previous, current int64, start Instant) {
	period := s.Limit.period()
	start = windowStart(now, period, 0)
	switch start - windowStart(s.Time, period, 0) {
	case 0:
		return s.Rest, s.Units, start
	case Instant(period):
		return s.Units, 0, start
	}
	return 0, 0, start
}

func (c slidingCounter) used(s *State, now Instant) int64 {
	previous, current, start := c.windows(s, now)
	period := s.Limit.period()
	return mulAddDivCeil(previous, period-int64(now-start), 0, period) + current
}

// With r = room − current left for the previous window's share, the share fits once period − elapsed ≤ r × period ÷
// previous. With r < 0 the current window must become the previous one first, and its own share shrink to room.
func (c slidingCounter) usedAtMost(s *State, room int64, now Instant) Instant {
	previous, current, start := c.windows(s, now)
	period := s.Limit.period()
	if current > room {
		previous, current, start = current, 0, start+Instant(period)
	}
	if previous <= room-current {
		return max(now, start)
	}
	inView, _ := mulAddDiv(room-current, period, 0, previous)
	return max(now, start+Instant(period-inView))
}

func (c slidingCounter) age(s *State, now Instant) {
	s.Rest, s.Units, _ = c.windows(s, now)
	s.Time = now
}

func (slidingCounter) refund(s *State, cost int64) {
	fromCurrent := min(cost, s.Units)
	s.Units -= fromCurrent
	s.Rest = max(0, s.Rest-(cost-fromCurrent))
}

func (c slidingCounter) excess(s *State, _, left int64, now Instant) int64 {
	previous, current, start := c.windows(s, now)
	period := s.Limit.period()
	return excessOfFading(previous, current, period-int64(now-start), period, left)
}

// excessOfFading is the excess where oldest counts by inView ÷ width of it, and rest in full. Units of the oldest count
// for less than one each, so it takes more of them: all but those whose share is still left.
func excessOfFading(oldest, rest, inView, width, left int64) int64 {
	share := mulAddDivCeil(oldest, inView, 0, width)
	if share <= left {
		return share + rest - left
	}
	stay, _ := mulAddDiv(left, width, 0, inView)
	return rest + oldest - stay
}
