package store

import (
	"slices"
	"time"
)

// MaxInstant is the greatest instant of a record. An expiry computed from it stays exact in a Lua number.
const MaxInstant = 1<<52 - 1

// Instant is a point in time as stores count it: whole microseconds since the Unix epoch.
type Instant int64

// InstantOf returns t as an Instant, cut to the microsecond. What lies before the epoch is the epoch.
func InstantOf(t time.Time) Instant { return Instant(max(0, t.UnixMicro())) }

// Time returns the instant as a time.Time in UTC.
func (i Instant) Time() time.Time { return time.UnixMicro(int64(i)).UTC() }

// Until returns the time from i to later, never less than zero.
func (i Instant) Until(later Instant) time.Duration {
	return time.Duration(max(0, later-i)) * time.Microsecond
}

// State is what one key has used. The zero State is an unused key. A State is not safe for concurrent use. It fades
// under the limit that was last applied to it; a later limit takes over when it charges.
type State struct {
	Limit Limit   // as last applied, normalized; zero when unused
	Time  Instant // of the last charge; the state's clock never goes below it

	// Units is the whole units of a bucket's level at Time, or what was used in the window that holds Time. Rest is
	// what the level has beyond them, as a numerator over the period in microseconds, or the use of the window before.
	Units, Rest int64
	log         *unitLog // of a sliding log or a counter in slices, instead of Units and Rest
}

// shortLog is up to how many entries a log is short.
const shortLog = 40

// IsShort reports whether s takes little memory. Only a log, or a counter in slices, can take much.
func (s *State) IsShort() bool { return s.log == nil || s.log.length() <= shortLog }

// Clone returns a copy of s that shares nothing with it.
func (s *State) Clone() *State {
	clone := *s
	if s.log != nil {
		clone.log = &unitLog{entries: slices.Clone(s.log.entries[s.log.head:]), base: s.log.base}
	}
	return &clone
}

// rule returns the rule that wrote s, which must not be unused.
func (s *State) rule() rule { return definitions[s.Limit.Kind()].rule }

// IsZero reports whether s is the unused state.
func (s *State) IsZero() bool { return s.Limit.Algorithm == 0 }

// clock returns the instant that counts for s when the store's clock shows now: time never runs backwards.
func (s *State) clock(now Instant) Instant { return max(now, s.Time) }

// Used returns the units in use at now, rounded up to whole ones.
func (s *State) Used(now Instant) int64 {
	if s.IsZero() {
		return 0
	}
	return s.rule().used(s, s.clock(now))
}

// UnusedAt returns the first instant from now on at which nothing is in use. A store lets the key expire then.
func (s *State) UnusedAt(now Instant) Instant { return s.UsedAtMost(0, now) }

// UsedAtMost returns the first instant, not before now, at which no more than room units are in use if nothing more is
// charged.
func (s *State) UsedAtMost(room int64, now Instant) Instant {
	if s.IsZero() {
		return now
	}
	return s.rule().usedAtMost(s, room, s.clock(now))
}

// Charge adds cost units under limit at now, whether or not they fit. If more than the count differs from the limit
// that s was written under, what was in use counts as used at now.
func (s *State) Charge(limit Limit, cost int64, now Instant) { s.charge(&limit, cost, now) }

func (s *State) charge(limit *Limit, cost int64, now Instant) {
	now = s.clock(now)
	if limit.Calendar != nil {
		in := limit.InWindow(now)
		limit = &in
	}
	if !s.Limit.countsLike(limit) {
		cost += s.Used(now)
		*s = State{Limit: *limit, Time: now}
	}
	rule := s.rule()
	rule.age(s, now) // what leaked until now leaked at the old rate
	rule.charge(s, cost)
	s.Limit = *limit
}

// Adjust leaves exactly used units in use at now: it charges under limit what
// is missing, or gives back what is too much. It reports whether that changed s.
func (s *State) Adjust(limit Limit, used int64, now Instant) (changed bool) {
	inUse := s.Used(now)
	switch {
	case inUse < used:
		s.Charge(limit, used-inUse, now)
	case inUse > used:
		s.Refund(s.rule().excess(s, inUse, used, s.clock(now)), now)
	}
	return inUse != used
}

// Refund gives cost units back at now, the newest first and no more than there
// are. The limit that s was written under stays.
func (s *State) Refund(cost int64, now Instant) {
	if s.IsZero() {
		return
	}
	now = s.clock(now)
	rule := s.rule()
	rule.age(s, now)
	rule.refund(s, cost)
	if rule.used(s, now) == 0 {
		*s = State{}
	}
}

// refunded is Refund, and returns how many units of cost were there to be given back.
func (s *State) refunded(cost int64, now Instant) int64 {
	units := min(cost, s.Used(now))
	s.Refund(cost, now)
	return units
}
