package probe

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Manner is how an endpoint counts where that is not said by its limit. The zero Manner is how
// limits count here.
type Manner struct {
	// Anchored: windows begin at whole periods since a subject's first request.
	Anchored bool
	// Tick is how coarse the clock is that the endpoint decides by; 0 is exact.
	Tick time.Duration
	// ChargesDenied: denied requests count as admitted ones do.
	ChargesDenied bool
	// Refreshed: each request, also a denied one, begins a window anew.
	Refreshed bool
	// RoundsDown: a sliding counter rounds what is left of the window before down, and
	// RoundsNearest to the nearest whole number.
	RoundsDown, RoundsNearest bool
	// Thousandths: a bucket counts thousandths of a request in whole milliseconds, as nginx does.
	Thousandths bool
	// Ban is for how long a subject is denied after a denial; 0 is no ban.
	Ban time.Duration
}

// mannersOf returns the manners in which others keep a limit of an algorithm: what they let
// through is not more than the limit, but for what rounding makes of it.
func mannersOf(limit *store.Limit) []Manner {
	switch {
	case limit.Algorithm == store.FixedWindow && limit.FromFirst:
		return []Manner{{Refreshed: true}}
	case limit.Algorithm == store.FixedWindow:
		return []Manner{{Anchored: true}}
	case limit.Algorithm == store.SlidingCounter && limit.Slices == 0:
		return []Manner{
			{RoundsDown: true}, {RoundsDown: true, Anchored: true},
			{RoundsDown: true, ChargesDenied: true}, {RoundsDown: true, Anchored: true, ChargesDenied: true},
		}
	case limit.Algorithm.HasBurst():
		return []Manner{{Thousandths: true}}
	}
	return nil
}

// judge holds the events of one subject to a model as discovery does. Of the readings of when they were decided, those
// count that explain most.
func (m *model) judge(standard standard, events []*Event) *judgement {
	tries := readings[:plainReadings]
	if slices.ContainsFunc(events, func(e *Event) bool { return e.Outcome == endpoint.Failed }) {
		tries = readings[:]
	}
	var best *judgement
	for i := range tries {
		j := m.read(standard, events, &tries[i])
		switch {
		case best == nil || j.over+j.under < best.over+best.under:
			best = j
		case j.over+j.under == best.over+best.under:
			best.widen(j)
		}
	}
	return best
}

// widen makes all that is true in one of two judgements possible.
func (j *judgement) widen(other *judgement) {
	for i := range j.views {
		v, o := &j.views[i], &other.views[i]
		v.over, v.under = v.over && o.over, v.under && o.under
		v.remaining[0], v.remaining[1] = min(v.remaining[0], o.remaining[0]), max(v.remaining[1], o.remaining[1])
		v.fits[0], v.fits[1] = earlier(v.fits[0], o.fits[0]), latest(v.fits[1], o.fits[1])
		v.more, v.unused = earlier(v.more, o.more), latest(v.unused, o.unused)
	}
	j.peak = min(j.peak, other.peak)
}

// read holds events to a model by one reading of when they were decided.
func (m *model) read(standard standard, events []*Event, r *reading) *judgement {
	j := &judgement{standard: standard, views: make([]view, 0, len(events))}
	var u usage
	failures, capacity := 0, m.limit.Capacity()
	for i, e := range events {
		o := observation{store.InstantOf(e.Sent), store.InstantOf(e.Answered), e.Cost, e.Outcome, 1}
		v := view{Event: e, judged: true}
		v.overlaps = i > 0 && e.Sent.Before(events[i-1].Answered) || i+1 < len(events) && events[i+1].Sent.Before(e.Answered)
		wrong := e.Outcome != endpoint.Failed && !m.explains(&u, &o)
		now := max(r.instant(&o), u.last)
		switch e.Outcome {
		case endpoint.Allowed:
			if v.over = wrong; wrong {
				j.over += e.Cost
			}
			m.take(&u, e.Cost, e.Cost, now)
			j.peak = max(j.peak, capacity-m.room(&u, now))
		case endpoint.Denied:
			if v.under = wrong; wrong {
				j.under += e.Cost
			}
			m.take(&u, e.Cost, 0, now)
		case endpoint.Failed:
			if r.failed>>min(failures, 63)&1 == 1 {
				m.take(&u, e.Cost, e.Cost, now)
			}
			failures++
		}
		room := m.room(&u, now)
		v.remaining = [2]int64{max(0, min(room, m.room(&u, o.sent-slack))), m.room(&u, max(now, o.answered+slack))}
		fits := m.when(&u, e.Cost, now).Time()
		v.fits = [2]time.Time{fits, fits}
		v.unused = m.when(&u, capacity, now).Time()
		v.more = m.when(&u, min(room+1, capacity), now).Time()
		j.views = append(j.views, v)
	}
	return j
}

// when returns the first instant from now on at which so many units fit, if nobody asks until
// then.
func (m *model) when(u *usage, units int64, now store.Instant) store.Instant {
	if m.room(u, now) >= units {
		return now
	}
	longest := m.Ban + 2*(m.Tick+m.limit.Period+m.fullSpan())
	return m.firstRoom(u, units, now, now+store.Instant(longest.Microseconds()))
}

// firstRoom returns the first instant after low, high at the latest, at which so many units fit, if nobody asks until then.
func (m *model) firstRoom(u *usage, units int64, low, high store.Instant) store.Instant {
	for high-low > 1 {
		if middle := low + (high-low)/2; m.room(u, middle) >= units {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}
