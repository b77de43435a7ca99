// Package explain compares answers with limits: which limits explain what was seen, which sequences of requests tell
// them apart, and what one limit says about each answer.
package explain

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Behaviour is how an endpoint counts where its limit does not say it. The zero Behaviour is how limitctl counts.
type Behaviour struct {
	// Anchored: windows begin at whole periods since a subject's first request.
	Anchored bool
	// Tick is the resolution of the clock by which the endpoint decides; 0 is exact.
	Tick time.Duration
	// ChargesDenied: denied requests count like admitted ones.
	ChargesDenied bool
	// Refreshed: each request, even a denied one, begins a new window.
	Refreshed bool
	// RoundsDown: a sliding counter rounds down what is left of the window before. RoundsNearest: it rounds that to
	// the nearest whole number.
	RoundsDown, RoundsNearest bool
	// Thousandths: a bucket counts thousandths of a request in whole milliseconds, as nginx does.
	Thousandths bool
	// Ban is the time for which a subject is denied after a denial; 0 means no ban.
	Ban time.Duration
}

// Model is a possible endpoint: a limit, and what other limiters do differently. Models are compared with ==, so two
// equal ones predict the same.
type Model struct {
	Limit store.Limit // normalized
	// Phase is how much later than whole periods since the epoch windows begin.
	Phase time.Duration
	Behaviour
}

// when returns the first instant from now on at which so many units fit, if there are no requests until then.
func (m *Model) when(u *usage, units int64, now store.Instant) store.Instant {
	if m.room(u, now) >= units {
		return now
	}
	if m.isPlain() {
		return m.retry(u, units, now)
	}
	longest := m.Ban + 2*(m.Tick+m.Limit.Period+m.FullSpan())
	return m.firstRoom(u, units, now, now+store.Instant(longest.Microseconds()))
}

// retry is like when, for a plain model in which the units do not fit now.
func (m *Model) retry(u *usage, units int64, now store.Instant) store.Instant {
	answer := u.state.Answer(&store.Request{Limit: m.Limit, Cost: units}, m.at(u, now), false)
	return now + store.Instant(answer.RetryAfter/time.Microsecond)
}

// isPlain reports whether the usage is a state that knows when there is room again.
func (m *Model) isPlain() bool {
	by := m.Behaviour
	by.ChargesDenied = false
	return by == Behaviour{}
}

// firstRoom returns the first instant after low, and at most high, at which so many units fit, if there are no
// requests until then.
func (m *Model) firstRoom(u *usage, units int64, low, high store.Instant) store.Instant {
	for high-low > 1 {
		if middle := low + (high-low)/2; m.room(u, middle) >= units {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// floored reports whether a sliding counter rounds the share of the previous window to whole units. If its windows
// begin with a request, the next request after two idle periods begins a window, too.
func (m *Model) floored() bool { return m.RoundsDown || m.RoundsNearest }

// IsAligned reports whether a subject's windows begin at instants that do not depend on its requests.
func (m *Model) IsAligned() bool {
	switch m.Limit.Algorithm {
	case store.FixedWindow:
		return !m.Limit.FromFirst && !m.Anchored
	case store.SlidingCounter:
		return !m.Anchored
	default:
		return m.Tick > 0
	}
}

// usage is what one subject has used under a model.
type usage struct {
	state       store.State
	begun       bool
	charged     bool
	first, last store.Instant // of requests
	bannedUntil store.Instant
	units       int64 // of a refreshed window, or thousandths above what a bucket had at first

	// Of a floored counter.
	begin             store.Instant
	current, previous int64
}

func (u *usage) clone() usage {
	c := *u
	c.state = *u.state.Clone()
	return c
}

// turn moves the windows of a floored counter to an instant.
func (m *Model) turn(u *usage, now store.Instant) {
	period := store.Instant(m.Limit.Period.Microseconds())
	phase := store.Instant(m.Phase.Microseconds())
	switch elapsed := now - u.begin; {
	case elapsed >= 2*period && m.Anchored:
		u.begin, u.current, u.previous = now, 0, 0
	case elapsed >= 2*period:
		u.begin, u.current, u.previous = now-(now-phase)%period, 0, 0
	case elapsed >= period:
		u.begin, u.current, u.previous = u.begin+period, 0, u.current
	}
}

// flooredUse returns the usage of a floored counter.
func (m *Model) flooredUse(u *usage, now store.Instant) int64 {
	then := *u
	m.turn(&then, now)
	period := m.Limit.Period.Microseconds()
	before := then.previous * (period - int64(now-then.begin))
	if m.RoundsNearest {
		before += period / 2
	}
	return then.current + before/period
}

// at returns an instant as the model's clock and windows count it.
func (m *Model) at(u *usage, now store.Instant) store.Instant {
	if m.Tick > 0 {
		now -= now % store.Instant(m.Tick.Microseconds())
	}
	now -= store.Instant(m.Phase.Microseconds())
	if m.Anchored {
		period := store.Instant(m.Limit.Period.Microseconds())
		if !u.begun {
			return 1000 * period
		}
		now += 1000*period - u.first
	}
	return now
}

// room returns how many units fit at an instant.
func (m *Model) room(u *usage, now store.Instant) int64 {
	if now < u.bannedUntil {
		return 0
	}
	used := int64(0)
	if m.Thousandths {
		return m.roomOfThousandths(u, now)
	} else if m.floored() {
		used = m.flooredUse(u, now)
	} else if m.Refreshed {
		if now < u.last+store.Instant(m.Limit.Period.Microseconds()) {
			used = u.units
		}
	} else {
		used = u.state.Used(m.at(u, now))
	}
	return max(0, m.Limit.Capacity()-used)
}

// excess returns the excess that a request would leave in a bucket of thousandths, beyond the first request.
func (m *Model) excess(u *usage, now store.Instant) int64 {
	if !u.charged {
		return 0
	}
	rate := m.Limit.Count * 1_000_000_000 / m.Limit.Period.Microseconds() // thousandths a second
	return max(0, u.units-rate*int64(now/1000-u.last/1000)/1000+1000)
}

func (m *Model) roomOfThousandths(u *usage, now store.Instant) int64 {
	left := (m.Limit.Burst-1)*1000 - m.excess(u, now)
	if left < 0 {
		return 0
	}
	return left/1000 + 1
}

// take counts n units that were asked for one by one, and how many of them were admitted.
func (m *Model) take(u *usage, n, admitted int64, now store.Instant) {
	if !u.begun {
		u.first, u.begun = now, true
		if m.Tick > 0 && m.Anchored {
			u.first -= now % store.Instant(m.Tick.Microseconds())
		}
	}
	charged := admitted
	if m.ChargesDenied {
		charged = n
	}
	switch {
	case m.Thousandths && admitted == 0:
		return // it writes nothing, so the time since the last admission counts
	case m.Thousandths:
		u.units, u.charged = m.excess(u, now)+(admitted-1)*1000, true
	case m.floored():
		m.turn(u, now)
		u.current += charged
	case m.Refreshed:
		if now >= u.last+store.Instant(m.Limit.Period.Microseconds()) {
			u.units = 0
		}
		u.units += admitted
	case charged > 0:
		u.state.Charge(m.Limit, charged, m.at(u, now))
	}
	u.last = now
	if m.Ban > 0 && n > admitted && now >= u.bannedUntil {
		u.bannedUntil = now + store.Instant(m.Ban.Microseconds())
	}
}

// FullSpan returns the time in which everything that is admitted at once comes back.
func (m *Model) FullSpan() time.Duration {
	if m.Limit.Refill != 0 {
		units := m.Limit.RefillUnits()
		return m.Limit.Refill * time.Duration((m.Limit.Burst+units-1)/units)
	}
	if m.Limit.Algorithm.HasBurst() {
		return time.Duration(float64(m.Limit.Period) * float64(m.Limit.Burst) / float64(m.Limit.Count))
	}
	return m.Limit.Period
}
