package layouts

import (
	"math"
	"time"
)

// twoWindows are two counters that together stand for a sliding window: the current one counts
// in full, the previous one for the part of it that the sliding window still covers.
type twoWindows struct {
	previous, current float64
	size              time.Duration
	// rest is how long the current window lasts from now on.
	rest time.Duration
}

// used returns the units in use now.
func (w *twoWindows) used() float64 { return w.previous*w.share() + w.current }

// share is the part of the previous window that still counts.
func (w *twoWindows) share() float64 { return float64(w.rest) / float64(w.size) }

// until returns how long it takes until at most so many units are in use, if none are taken.
func (w *twoWindows) until(units float64) time.Duration {
	if w.used() <= units {
		return 0
	}
	rest, previous, current := w.rest, w.previous, w.current
	ends := time.Duration(0)
	if current > units { // not in this window
		ends, rest, previous, current = rest, w.size, current, 0
	}
	if previous <= 0 {
		return ends + rest
	}
	// It is so when the rest of the window is size·(units−current)/previous.
	passes := float64(rest) - float64(w.size)*(units-current)/previous
	return ends + ceilMicroseconds(min(float64(rest), passes))
}

// after returns the windows as they are some time later, in the next window at most.
func (w twoWindows) after(d time.Duration) twoWindows {
	if d < w.rest {
		w.rest -= d
		return w
	}
	return twoWindows{previous: w.current, size: w.size, rest: w.size - (d - w.rest)}
}

// empty returns how long it takes until nothing is in use.
func (w *twoWindows) empty() time.Duration {
	switch {
	case w.current > 0:
		return w.rest + w.size
	case w.previous > 0:
		return w.rest
	}
	return 0
}

// ceilMicroseconds rounds ns up to whole µs.
func ceilMicroseconds(ns float64) time.Duration {
	return repeated(toInt64(math.Ceil(max(0, ns)/float64(time.Microsecond))), time.Microsecond)
}
