package live

import (
	"math"
	"slices"
	"time"
)

// HistoryLength is how many seconds are remembered.
const HistoryLength = 300

// History is a value at each of the last seconds.
type History struct {
	Values []float32 // up to the last one, NaN where nothing is known
	Last   int64     // the second of the last value
	Sums   bool      // values of one second add up; else the greatest counts
}

// longestRefresh is how many seconds apart two values may be for the time between them to
// be filled in.
const longestRefresh = 60

// Add puts a value into its second, and fills in the seconds since the last value evenly,
// unless those are too many.
func (h *History) Add(at time.Time, value float32) {
	second := at.Unix()
	if h.Values == nil {
		h.Last = second
		h.Values = []float32{value}
		return
	}
	if second <= h.Last {
		i := len(h.Values) - 1
		switch {
		case IsNaN(h.Values[i]):
			h.Values[i] = value
		case h.Sums:
			h.Values[i] += value
		default:
			h.Values[i] = max(h.Values[i], value)
		}
		return
	}
	gap := min(second-h.Last, HistoryLength)
	if h.Sums {
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

// put appends the value of the next second, and forgets the first of too many.
func (h *History) put(second int64, value float32) {
	if len(h.Values) == HistoryLength {
		copy(h.Values, h.Values[1:])
		h.Values = h.Values[:HistoryLength-1]
	}
	if n := len(h.Values); n == cap(h.Values) && n > HistoryLength/4 { // else it would grow to far more than are kept
		h.Values = slices.Grow(h.Values, HistoryLength-n)
	}
	h.Values, h.Last = append(h.Values, value), second
}

// At returns the value of a second, NaN if it is not known.
func (h *History) At(second int64) float32 {
	back := h.Last - second
	if back < 0 || back >= int64(len(h.Values)) {
		return float32(math.NaN())
	}
	return h.Values[int64(len(h.Values))-1-back]
}

// Mean is the mean of the known values of the last seconds, the current second
// included.
func (h *History) Mean(seconds int64) float64 {
	sum, known := 0.0, 0
	for second := h.Last - min(seconds, int64(len(h.Values))) + 1; second <= h.Last; second++ {
		if value := h.At(second); !IsNaN(value) {
			sum += float64(value)
			known++
		}
	}
	return sum / float64(max(1, known))
}

// Lately is the mean of the last Lately seconds. known is false if it knows none of them.
func (h *History) Lately() (mean float64, known bool) {
	_, known = h.Sum(h.Last-Lately, h.Last)
	return h.Mean(Lately), known
}

// Sum adds up the values of the seconds behind from, up to and including to. known is false if it knows none of them.
func (h *History) Sum(from, to int64) (sum float64, known bool) {
	for second := from + 1; second <= to; second++ {
		if value := h.At(second); !IsNaN(value) {
			sum, known = sum+float64(value), true
		}
	}
	return sum, known
}

// Columns returns the greatest value of each of that many equal parts of the last seconds
// up to now.
func (h *History) Columns(now time.Time, seconds, columns int) []float32 {
	values := make([]float32, columns)
	end := now.Unix()
	for i := range values {
		values[i] = float32(math.NaN())
		from, to := end-int64(seconds)+int64(i*seconds/columns)+1, end-int64(seconds)+int64((i+1)*seconds/columns)
		for second := min(from, to); second <= to; second++ {
			if value := h.At(second); !IsNaN(value) && (IsNaN(values[i]) || value > values[i]) {
				values[i] = value
			}
		}
	}
	return values
}

// IsNaN reports whether nothing is known.
func IsNaN(f float32) bool { return f != f }

// Lately is the time, in seconds, over which units and denials a second are computed.
const Lately = 10
