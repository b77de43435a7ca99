package events

import (
	"sync/atomic"
	"time"
)

// spell is a time in which the same thing happens again and again. It is reported at its beginning, regularly while
// it goes on, and at its end.
type spell struct {
	active     atomic.Bool
	total      atomic.Int64 // how often it happened
	last       atomic.Int64 // when it last did, in nanoseconds of unix time
	since      atomic.Int64 // when it first did
	reported   int64        // total at the last report
	reportedAt time.Time    // when it was last reported; both are for refresh
}

// count counts an event, and returns whether it begins the spell.
func (s *spell) count(now time.Time) (begins bool) {
	s.last.Store(now.UnixNano())
	s.total.Add(1)
	if s.active.Load() || !s.active.CompareAndSwap(false, true) {
		return false
	}
	s.since.Store(now.UnixNano())
	return true
}

// news is what to report about a spell.
type news int

const (
	nothing news = iota
	goesOn
	isOver
)

// refresh returns what to report, and the number of events: since the last report if the spell goes on, in all if
// it is over. It is for one goroutine.
func (s *spell) refresh(now time.Time) (what news, count int64) {
	total := s.total.Load()
	switch {
	case !s.active.Load():
	case now.Sub(time.Unix(0, s.last.Load())) >= quiet:
		return isOver, total
	case s.reportedAt.IsZero():
		s.reportedAt = s.begun()
	case now.Sub(s.reportedAt) >= repeat:
		count, s.reported, s.reportedAt = total-s.reported, total, now
		return goesOn, count
	}
	return nothing, 0
}

func (s *spell) begun() time.Time { return time.Unix(0, s.since.Load()).UTC() }

// lasted is the length of the spell.
func (s *spell) lasted() time.Duration {
	return time.Duration(s.last.Load() - s.since.Load()).Round(time.Millisecond)
}
