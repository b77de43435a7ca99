package store

import "time"

// fixedWindow: time is cut into windows of one period, aligned to the epoch, and each allows count units. Around a
// boundary up to twice the count gets through within one period. Units were used in the window that holds s.Time. The
// twin is lua/fixed_window.lua.
//
// With a calendar, the limit of a state is in one window (see [Limit.InWindow]), and usage counts until its end,
// whatever bounds a later request has, so that nothing is lost when the rules of a zone change. The twin is
// lua/calendar_window.lua.
//
// With FromFirst, which is of limits that others decide, a window begins at Rest, with the first unit that is charged
// after the one before, as INCR with EXPIRE counts.
type fixedWindow struct{ wholeUnits }

// windowStart returns the start of the window that holds at, if windows begin phase after whole periods.
func windowStart(at Instant, period int64, phase time.Duration) Instant {
	if phase == 0 {
		return at - at%Instant(period)
	}
	since := (at - Instant(phase.Microseconds())) % Instant(period)
	if since < 0 { // before the first window
		since += Instant(period)
	}
	return at - since
}

func (fixedWindow) end(s *State) Instant {
	period := s.Limit.period()
	if s.Limit.FromFirst {
		return Instant(s.Rest + period)
	}
	return windowStart(s.Time, period, s.Limit.Phase) + Instant(period)
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

func (w fixedWindow) age(s *State, now Instant) {
	s.Units = w.used(s, now)
	if s.Limit.FromFirst && s.Units == 0 {
		s.Rest = int64(now)
	}
	s.Time = now
}
