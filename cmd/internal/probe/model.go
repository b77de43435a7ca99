package probe

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// model is what an endpoint may do: a limit, and what limiters of others do differently. Models
// are compared, so two that are equal predict alike.
type model struct {
	limit store.Limit // normalized
	// phase is by how much windows begin later than whole periods since the epoch.
	phase time.Duration
	Manner
}

// floored reports whether a sliding counter counts whole units of the window before. A window
// of its that begins with a request does so again after two periods without one.
func (m *model) floored() bool { return m.RoundsDown || m.RoundsNearest }

// isAligned reports whether when a subject's windows begin does not depend on its requests.
func (m *model) isAligned() bool {
	switch m.limit.Algorithm {
	case store.FixedWindow:
		return !m.limit.FromFirst && !m.Anchored
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
	first, last store.Instant // request
	bannedUntil store.Instant
	units       int64 // of a refreshed window, or thousandths above what a bucket had at first

	// Of a floored counter.
	begin             store.Instant
	current, previous int64
}

// turn moves a floored counter's windows to where they are at an instant.
func (m *model) turn(u *usage, now store.Instant) {
	period := store.Instant(m.limit.Period.Microseconds())
	phase := store.Instant(m.phase.Microseconds())
	switch elapsed := now - u.begin; {
	case elapsed >= 2*period && m.Anchored:
		u.begin, u.current, u.previous = now, 0, 0
	case elapsed >= 2*period:
		u.begin, u.current, u.previous = now-(now-phase)%period, 0, 0
	case elapsed >= period:
		u.begin, u.current, u.previous = u.begin+period, 0, u.current
	}
}

// flooredUse returns what a floored counter has in use.
func (m *model) flooredUse(u *usage, now store.Instant) int64 {
	then := *u
	m.turn(&then, now)
	period := m.limit.Period.Microseconds()
	before := then.previous * (period - int64(now-then.begin))
	if m.RoundsNearest {
		before += period / 2
	}
	return then.current + before/period
}

// at returns an instant as the model's clock and windows count it.
func (m *model) at(u *usage, now store.Instant) store.Instant {
	if m.Tick > 0 {
		now -= now % store.Instant(m.Tick.Microseconds())
	}
	now -= store.Instant(m.phase.Microseconds())
	if m.Anchored {
		period := store.Instant(m.limit.Period.Microseconds())
		if !u.begun {
			return 1000 * period
		}
		now += 1000*period - u.first
	}
	return now
}

// room returns how many units fit at an instant.
func (m *model) room(u *usage, now store.Instant) int64 {
	if now < u.bannedUntil {
		return 0
	}
	used := int64(0)
	if m.Thousandths {
		return m.roomOfThousandths(u, now)
	} else if m.floored() {
		used = m.flooredUse(u, now)
	} else if m.Refreshed {
		if now < u.last+store.Instant(m.limit.Period.Microseconds()) {
			used = u.units
		}
	} else {
		used = u.state.Used(m.at(u, now))
	}
	return max(0, m.limit.Capacity()-used)
}

// excess returns what a request would leave in a bucket of thousandths, beyond the first request.
func (m *model) excess(u *usage, now store.Instant) int64 {
	if !u.charged {
		return 0
	}
	rate := m.limit.Count * 1_000_000_000 / m.limit.Period.Microseconds() // thousandths a second
	return max(0, u.units-rate*int64(now/1000-u.last/1000)/1000+1000)
}

func (m *model) roomOfThousandths(u *usage, now store.Instant) int64 {
	left := (m.limit.Burst-1)*1000 - m.excess(u, now)
	if left < 0 {
		return 0
	}
	return left/1000 + 1
}

// take tells a model that n units were asked for one by one and so many of them admitted.
func (m *model) take(u *usage, n, admitted int64, now store.Instant) {
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
		return // it writes nothing, and the time since the last admission counts
	case m.Thousandths:
		u.units, u.charged = m.excess(u, now)+(admitted-1)*1000, true
	case m.floored():
		m.turn(u, now)
		u.current += charged
	case m.Refreshed:
		if now >= u.last+store.Instant(m.limit.Period.Microseconds()) {
			u.units = 0
		}
		u.units += admitted
	case charged > 0:
		u.state.Charge(m.limit, charged, m.at(u, now))
	}
	u.last = now
	if m.Ban > 0 && n > admitted && now >= u.bannedUntil {
		u.bannedUntil = now + store.Instant(m.Ban.Microseconds())
	}
}
