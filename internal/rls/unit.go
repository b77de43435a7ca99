package rls

import (
	"math"
	"time"
)

const day = 24 * time.Hour

// units are the units of time by their numbers. A month and a year have the length that
// envoyproxy/ratelimit gives them.
var units = [...]time.Duration{
	1: time.Second, 2: time.Minute, 3: time.Hour, 4: day, 5: 30 * day, 6: 365 * day, 7: 7 * day,
}

// UnitOf returns the unit with exactly that period, or 0 for unknown.
func UnitOf(period time.Duration) int32 {
	for unit, length := range units {
		if length == period && length > 0 {
			return int32(unit)
		}
	}
	return 0
}

// UnitNamed returns the unit of a window of a calendar, as limits have it; 0 for none.
func UnitNamed(window string) int32 {
	return map[string]int32{"1d": 4, "1mo": 5, "1y": 6, "1w": 7}[window]
}

// UnitPeriod returns the length of a unit; 0 for an unknown one.
func UnitPeriod(unit int32) time.Duration {
	if unit < 0 || int(unit) >= len(units) {
		return 0
	}
	return units[unit]
}

// Period returns the limit's period; 0 for an unknown unit, or a period that is too long.
func (l *LimitOverride) Period() time.Duration {
	length, multiplier := UnitPeriod(l.Unit), time.Duration(max(1, l.Multiplier))
	if length == 0 || multiplier > math.MaxInt64/length {
		return 0
	}
	return length * multiplier
}
