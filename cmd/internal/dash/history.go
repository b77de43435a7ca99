package dash

import (
	"math"
	"time"
)

// historyLength is how many seconds are remembered.
const historyLength = 300

// history is a value at each of the last seconds.
type history struct {
	values []float32 // a ring, NaN where nothing is known
	last   int64     // the second of the last value
	sums   bool      // values of one second add up; else the greatest counts
}

// longestRefresh is how many seconds apart two values may be for the time between them to
// be filled in.
const longestRefresh = 60

// slot is where in the ring a second is, also one before 1970.
func slot(second int64) int64 { return (second%historyLength + historyLength) % historyLength }

// add puts a value into its second, and fills in the seconds since the last value evenly,
// unless those are too many.
func (h *history) add(at time.Time, value float32) {
	second := at.Unix()
	if h.values == nil {
		h.last = second
		h.values = []float32{value}
		return
	}
	if second <= h.last {
		i := slot(h.last)
		if len(h.values) < historyLength {
			i = int64(len(h.values)) - 1
		}
		switch {
		case isNaN(h.values[i]):
			h.values[i] = value
		case h.sums:
			h.values[i] += value
		default:
			h.values[i] = max(h.values[i], value)
		}
		return
	}
	gap := min(second-h.last, historyLength)
	if h.sums {
		value /= float32(gap) // it was taken since the last one
	}
	for n := gap - 1; n > 0; n-- {
		if gap > longestRefresh {
			h.put(second-n, float32(math.NaN()))
		} else {
			h.put(second-n, value)
		}
	}
	h.put(second, value)
}

// put appends the value of the next second.
func (h *history) put(second int64, value float32) {
	if len(h.values) < historyLength {
		if h.values = append(h.values, value); len(h.values) == historyLength {
			h.rotate(second)
		}
	} else {
		h.values[slot(second)] = value
	}
	h.last = second
}

// rotate brings a slice that has just been filled into the order of a ring.
func (h *history) rotate(last int64) {
	ring := make([]float32, historyLength)
	for i, value := range h.values {
		ring[slot(last-int64(historyLength-1-i))] = value
	}
	h.values = ring
}

// at returns the value of a second, NaN if it is not known.
func (h *history) at(second int64) float32 {
	back := h.last - second
	if back < 0 || back >= int64(len(h.values)) {
		return float32(math.NaN())
	}
	if len(h.values) < historyLength {
		return h.values[int64(len(h.values))-1-back]
	}
	return h.values[slot(second)]
}

// mean is the mean of the known values of the last seconds, the current second
// included.
func (h *history) mean(seconds int64) float64 {
	sum, known := 0.0, 0
	for second := h.last - min(seconds, int64(len(h.values))) + 1; second <= h.last; second++ {
		if value := h.at(second); !isNaN(value) {
			sum += float64(value)
			known++
		}
	}
	return sum / float64(max(1, known))
}

// columns returns the greatest value of each of that many equal parts of the last seconds
// up to now.
func (h *history) columns(now time.Time, seconds, columns int) []float32 {
	values := make([]float32, columns)
	end := now.Unix()
	for i := range values {
		values[i] = float32(math.NaN())
		from, to := end-int64(seconds)+int64(i*seconds/columns)+1, end-int64(seconds)+int64((i+1)*seconds/columns)
		for second := min(from, to); second <= to; second++ {
			if value := h.at(second); !isNaN(value) && (isNaN(values[i]) || value > values[i]) {
				values[i] = value
			}
		}
	}
	return values
}

func isNaN(f float32) bool { return f != f }
