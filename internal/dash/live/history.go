package live

import (
	"math"
	"time"
)

const historyLength = 60 // seconds

// Lately is the time, in seconds, over which units and denials a second are computed.
const Lately = 10

// History is a value at each of the last seconds.
type History struct {
	values []float32 // up to the last one, NaN where nothing is known
	last   int64     // the second of the last value
	Sums   bool      // values of one second add up; else the greatest counts
}

// Add puts a value into its second, and fills in the seconds since the last value evenly. NaN is one that is not known.
func (h *History) Add(at time.Time, value float32) {
	second := at.Unix()
	switch {
	case h.values == nil:
		h.values, h.last = append(make([]float32, 0, historyLength/4), value), second
		return
	case second > h.last:
	default:
		switch known := &h.values[len(h.values)-1]; {
		case IsNaN(*known):
			*known = value
		case h.Sums:
			*known += value
		default:
			*known = max(*known, value)
		}
		return
	}
	gap := min(second-h.last, historyLength)
	if h.Sums {
		value /= float32(gap) // it was taken since the last one
	}
	for range gap {
		if len(h.values) == historyLength {
			h.values = h.values[:copy(h.values, h.values[1:])]
		}
		h.values = append(h.values, value)
	}
	h.last = second
}

// at returns the value of a second, NaN if it is not known.
func (h *History) at(second int64) float32 {
	back := h.last - second
	if back < 0 || back >= int64(len(h.values)) {
		return float32(math.NaN())
	}
	return h.values[int64(len(h.values))-1-back]
}

// Mean is the mean of the last [Lately] seconds that are known. known is false if none is.
func (h *History) Mean() (mean float64, known bool) {
	sum, n := 0.0, 0
	for second := h.last - Lately + 1; second <= h.last; second++ {
		if value := h.at(second); !IsNaN(value) {
			sum += float64(value)
			n++
		}
	}
	return sum / float64(max(1, n)), n > 0
}

// Columns returns the greatest value of each of that many equal parts of the last minute.
func (h *History) Columns(now time.Time, columns int) []float32 {
	values := make([]float32, columns)
	begin := now.Unix() - historyLength
	for i := range values {
		values[i] = float32(math.NaN())
		from, to := begin+int64(i*historyLength/columns)+1, begin+int64((i+1)*historyLength/columns)
		for second := min(from, to); second <= to; second++ {
			if value := h.at(second); !IsNaN(value) && (IsNaN(values[i]) || value > values[i]) {
				values[i] = value
			}
		}
	}
	return values
}

// IsNaN reports whether nothing is known.
func IsNaN(f float32) bool { return f != f }
