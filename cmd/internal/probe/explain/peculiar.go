package explain

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Peculiarities describes what a limit cannot express about a model.
func (m *Model) Peculiarities() (all []string) {
	for _, p := range []struct {
		is   bool
		text string
	}{
		{m.Limit.Refill != 0, "its units come back at intervals since a subject's first request, all those of an interval at once"},
		{m.Anchored, "its windows begin with a subject's first request, and follow each other without a gap"},
		{m.ChargesDenied, "denied requests count like admitted ones, so a client that keeps asking stays out longer"},
		{m.Refreshed, "each request, even a denied one, begins a new window, so a client that keeps asking stays out"},
		{m.Thousandths, "it counts thousandths of a request in whole milliseconds, as nginx does"},
		{m.RoundsDown, "it rounds down what is left of the window before"},
		{m.RoundsNearest, "it rounds what is left of the window before to the nearest whole number, so it can let one too many through"},
		{m.Tick > 0, "its clock counts in steps of " + store.FormatPeriod(m.Tick)},
		{m.Phase != 0, "its windows begin " + m.Phase.Round(time.Millisecond).String() +
			" later than whole periods since the epoch, by this machine's clock"},
		{m.Ban > 0, "a denied subject stays out for " + store.FormatPeriod(m.Ban)},
	} {
		if p.is {
			all = append(all, p.text)
		}
	}
	return all
}

// Plainness orders models that explain the same: the lower, the more usual.
func Plainness(m *Model) int {
	order := 0
	switch {
	case m.Limit.Algorithm == store.TokenBucket && m.Limit.Refill == 0:
		order = 0
	case m.Limit.Refill != 0:
		order = 10
	case m.Limit.FromFirst:
		order = 20
	case m.Limit.Algorithm == store.FixedWindow:
		order = 10
	case m.Limit.Algorithm == store.SlidingLog:
		order = 30
	default:
		order = 40 + int(min(m.Limit.Slices, 50))
	}
	for _, unusual := range []bool{
		m.Anchored, m.Tick > 0, m.ChargesDenied, m.Refreshed, m.floored() && !m.Anchored, m.RoundsNearest, m.Thousandths, m.Ban > 0,
		m.Phase != 0, m.Limit.Refill != 0,
	} {
		if unusual {
			order += 100
		}
	}
	return order
}

// behavioursOf returns the behaviours of other limiters with a limit of an algorithm. They let through no more than
// the limit, except by rounding.
func behavioursOf(limit *store.Limit) []Behaviour {
	switch {
	case limit.Algorithm == store.FixedWindow && limit.FromFirst:
		return []Behaviour{{Refreshed: true}}
	case limit.Algorithm == store.FixedWindow:
		return []Behaviour{{Anchored: true}}
	case limit.Algorithm == store.SlidingCounter && limit.Slices == 0:
		return []Behaviour{
			{RoundsDown: true}, {RoundsDown: true, Anchored: true},
			{RoundsDown: true, ChargesDenied: true}, {RoundsDown: true, Anchored: true, ChargesDenied: true},
		}
	case limit.Algorithm.HasBurst() && limit.Refill == 0:
		return []Behaviour{{Thousandths: true}}
	}
	return nil
}
