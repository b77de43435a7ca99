package dash

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Short writes a number in five columns or less.
func shortNumber(n float64) string {
	switch {
	case n < 0.05:
		return "0"
	case n < 9.95:
		return fmt.Sprintf("%.1f", n)
	case n < 9999.5:
		return fmt.Sprintf("%.0f", n)
	case n < 99_950:
		return fmt.Sprintf("%.1fk", n/1e3)
	case n < 999_500:
		return fmt.Sprintf("%.0fk", n/1e3)
	case n < 99_950_000:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n < 999_500_000:
		return fmt.Sprintf("%.0fM", n/1e6)
	}
	return fmt.Sprintf("%.1fG", n/1e9)
}

// seconds writes a duration in seven columns or less, rounded up.
func seconds(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < 10*time.Second:
		return output.Duration(roundUp(d, 100*time.Millisecond))
	case d > 24*time.Hour:
		return output.Duration(roundUp(d, time.Hour))
	}
	return output.Duration(roundUp(d, time.Second))
}

// roundUp is the next multiple of to.
func roundUp(d, to time.Duration) time.Duration { return (d + to - 1) / to * to }

// limitWords says a limit in words.
func limitWords(l store.Limit) string {
	period := l.PeriodText()
	text := fmt.Sprintf("at most %s in %s", output.Thousands(l.Count), period)
	if unit, is := map[string]string{"1s": "a second", "1m": "a minute", "1h": "an hour", "1d": "a day"}[period]; is {
		text = fmt.Sprintf("at most %s %s", output.Thousands(l.Count), unit)
	}
	switch l.Algorithm {
	case store.TokenBucket:
		return fmt.Sprintf("%s, refilled steadily, %s at once", text, output.Thousands(l.Capacity()))
	case store.LeakyBucket:
		return fmt.Sprintf("%s, evenly spaced, %s waiting", text, output.Thousands(l.Capacity()))
	case store.FixedWindow:
		if l.Calendar != nil {
			return text + ", counted from 0 in each window of a calendar"
		}
		return text + ", counted from 0 in each window"
	case store.SlidingLog:
		return text + ", in any such time, exactly"
	case store.SlidingCounter:
		if l.Slices > 1 {
			slice := store.FormatPeriod(l.Period / time.Duration(l.Slices))
			return fmt.Sprintf("%s, in any such time, give or take a slice of %s", text, slice)
		}
		return text + ", in any such time, approximately"
	}
	return text
}

// until says when something ends, by the clock where that is less than a day away.
func until(end, now time.Time) string {
	end = end.In(now.Location())
	if end.Sub(now) < 20*time.Hour {
		return end.Format("15:04")
	}
	return end.Format("Jan 2 15:04")
}

// overrideTexts say what an override does, and until when.
func overrideTexts(o *store.Override, now time.Time) (effect, end string) {
	return allowance.Effect(o), " until " + until(o.ExpiresAt, now)
}

// overrideText is everything about an override, in lines.
func overrideText(o *store.Override, now time.Time) []string {
	words := allowance.Effect(o) + " until " + until(o.ExpiresAt, now) + ", in " +
		output.Duration(o.ExpiresAt.Sub(now).Truncate(time.Second))
	about := "for " + output.Printable(o.Subjects.String())
	if o.Subjects.IsZero() {
		about = "for all subjects"
	}
	for _, name := range slices.Sorted(maps.Keys(o.Attributes)) {
		about += " " + name + "=" + output.Printable(o.Attributes[name])
	}
	if !o.Names.IsZero() {
		about += ", limit " + output.Printable(o.Names.String())
	}
	lines := []string{words, about + " (" + output.Printable(o.ID) + ")"}
	by := "set"
	if o.By != "" {
		by += " by " + output.Printable(o.By)
	}
	if o.Reason != "" {
		by += ": " + output.Printable(o.Reason)
	}
	return append(lines, by)
}

// blockSign marks what is under a block.
const blockSign = "⊘"

// overrideSign marks rows under an override.
func overrideSign(o *store.Override) string {
	switch {
	case o.Effect == store.OverrideBlock:
		return blockSign
	case o.Effect == store.OverrideExempt:
		return "∞"
	}
	return "±"
}

// historyLength is how many seconds are remembered.
const historyLength = 300

// history is a value at each of the last seconds.
type history struct {
	Values []float32 // a ring, NaN where nothing is known
	Last   int64     // the second of the last value
	Sums   bool      // values of one second add up; else the greatest counts
}

// longestRefresh is how many seconds apart two values may be for the time between them to
// be filled in.
const longestRefresh = 60

// slot is where in the ring a second is, also one before 1970.
func slot(second int64) int64 { return (second%historyLength + historyLength) % historyLength }

// Add puts a value into its second, and fills in the seconds since the last value evenly,
// unless those are too many.
func (h *history) Add(at time.Time, value float32) {
	second := at.Unix()
	if h.Values == nil {
		h.Last = second
		h.Values = []float32{value}
		return
	}
	if second <= h.Last {
		i := slot(h.Last)
		if len(h.Values) < historyLength {
			i = int64(len(h.Values)) - 1
		}
		switch {
		case isNaN(h.Values[i]):
			h.Values[i] = value
		case h.Sums:
			h.Values[i] += value
		default:
			h.Values[i] = max(h.Values[i], value)
		}
		return
	}
	gap := min(second-h.Last, historyLength)
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

// put appends the value of the next second.
func (h *history) put(second int64, value float32) {
	if len(h.Values) < historyLength {
		if h.Values = append(h.Values, value); len(h.Values) == historyLength {
			h.rotate(second)
		}
	} else {
		h.Values[slot(second)] = value
	}
	h.Last = second
}

// rotate brings a slice that has just been filled into the order of a ring.
func (h *history) rotate(last int64) {
	ring := make([]float32, historyLength)
	for i, value := range h.Values {
		ring[slot(last-int64(historyLength-1-i))] = value
	}
	h.Values = ring
}

// At returns the value of a second, NaN if it is not known.
func (h *history) At(second int64) float32 {
	back := h.Last - second
	if back < 0 || back >= int64(len(h.Values)) {
		return float32(math.NaN())
	}
	if len(h.Values) < historyLength {
		return h.Values[int64(len(h.Values))-1-back]
	}
	return h.Values[slot(second)]
}

// Mean is the mean of the known values of the last seconds, the current second
// included.
func (h *history) Mean(seconds int64) float64 {
	sum, known := 0.0, 0
	for second := h.Last - min(seconds, int64(len(h.Values))) + 1; second <= h.Last; second++ {
		if value := h.At(second); !isNaN(value) {
			sum += float64(value)
			known++
		}
	}
	return sum / float64(max(1, known))
}

// Sum adds up the values of the seconds behind from, up to and including to. known is false if it knows none of them.
func (h *history) Sum(from, to int64) (sum float64, known bool) {
	for second := from + 1; second <= to; second++ {
		if value := h.At(second); !isNaN(value) {
			sum, known = sum+float64(value), true
		}
	}
	return sum, known
}

// Columns returns the greatest value of each of that many equal parts of the last seconds
// up to now.
func (h *history) Columns(now time.Time, seconds, columns int) []float32 {
	values := make([]float32, columns)
	end := now.Unix()
	for i := range values {
		values[i] = float32(math.NaN())
		from, to := end-int64(seconds)+int64(i*seconds/columns)+1, end-int64(seconds)+int64((i+1)*seconds/columns)
		for second := min(from, to); second <= to; second++ {
			if value := h.At(second); !isNaN(value) && (isNaN(values[i]) || value > values[i]) {
				values[i] = value
			}
		}
	}
	return values
}

// isNaN reports whether nothing is known.
func isNaN(f float32) bool { return f != f }

// lately is the time, in seconds, over which units and denials a second are computed.
const lately = 10
