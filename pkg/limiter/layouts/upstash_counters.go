package layouts

import (
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// upstashWindows are the windows at an instant, as the limiter weighs them: in ms and in floats.
type upstashWindows struct {
	window            // the one at now
	current, previous int64
	regions           bool // of a limiter of several regions
}

// weighed returns what the window before still counts, ms milliseconds after the window's
// beginning.
func (w *upstashWindows) weighed(previous, ms int64) float64 {
	share := float64(ms) / float64(w.period.Milliseconds())
	return float64((1 - share) * float64(previous))
}

// used returns what is in use. One region rounds down, several round up.
func (w *upstashWindows) used(ms int64) int64 {
	if w.regions {
		return int64(math.Ceil(w.weighed(w.previous, ms))) + w.current
	}
	return int64(math.Floor(w.weighed(w.previous, ms))) + w.current
}

// fits reports whether a unit fits beside what is in use.
func (w *upstashWindows) fits(count, current, previous, ms int64) bool {
	if w.regions {
		return w.weighed(previous, ms)+float64(current+1) <= float64(count)
	}
	return int64(math.Floor(w.weighed(previous, ms)))+current < count
}

// retry returns how many ms after the window's beginning a unit fits: in this window, or in the
// next one, in which what is in this one is weighed.
func (w *upstashWindows) retry(count, ms int64) int64 {
	length := w.period.Milliseconds()
	for window, counts := range [2][2]int64{{w.current, w.previous}, {0, w.current}} {
		from, to := int64(0), length // in it no unit fits at from−1
		if window == 0 {
			from = ms
		}
		if !w.fits(count, counts[0], counts[1], length-1) {
			continue
		}
		for from < to {
			if middle := (from + to) / 2; w.fits(count, counts[0], counts[1], middle) {
				to = middle
			} else {
				from = middle + 1
			}
		}
		return int64(window)*length + from
	}
	return 2 * length
}

// windows decodes the counters of windows. A window of one that is fixed is kept for its period
// from its first request on, one of one that slides for longer than the next window. So the TTL
// tells which it is, if the operator does not.
func (u upstash) windows(found *Found, key *upstashKey, dynamic int64, values []Value) (Reading, error) {
	w, limit, alone := u.windowsOf(found, key, dynamic, values)
	if w.period == 0 {
		if _, _, err := upstashSum(&values[0]); err != nil {
			return Reading{}, err
		}
		entry := admin.Entry{Limit: limit, UsedUnknown: true}
		entry.Defects = lifetime{passes: true, never: upstashNever}.defects(&entry, values[:1])
		// One that stays is likely of a window long past.
		certain := values[0].TTL < 0 && values[0].Type == StringValue && key.index >= leastUpstashWindow
		return Reading{Entries: []admin.Entry{entry}, Certain: certain}, nil
	}
	var unknown bool
	var counts [2]int64
	for i := range values {
		sum, more, err := upstashSum(&values[i])
		if err != nil {
			return Reading{}, err
		}
		counts[i], unknown = min(max(0, sum), math.MaxInt64/4), unknown || more
		w.regions = w.regions || values[i].Type == HashValue
	}
	w.current, w.previous = counts[0], counts[1]
	kept := lifetime{longest: 2*w.period + time.Second, passes: true, never: upstashNever}
	until := w.until(found.Now)
	ms := int64(found.Now) / 1000 % w.period.Milliseconds()
	var entry admin.Entry
	switch {
	case alone && w.age(found.Now) > 0: // long past
		entry = pastEntry(key.key(true), limit, key.index)
	case limit.Algorithm == store.FixedWindow:
		entry = countEntry(limit, w.current, until)
	default:
		entry = countEntry(limit, w.used(ms), until)
		if entry.CapacityKnown() {
			entry.Allowed = w.fits(limit.Count, w.current, w.previous, ms)
			if entry.RetryAfter = 0; !entry.Allowed {
				begun := time.Duration(int64(found.Now)*1000%int64(w.period)) * time.Nanosecond
				entry.RetryAfter = time.Duration(w.retry(limit.Count, ms))*time.Millisecond - begun
			}
		}
	}
	entry.UsedUnknown = unknown
	entry.Defects = kept.defects(&entry, values)
	value := &values[0]
	if value.Type == NoValue {
		value = &values[1]
	}
	certain := value.TTL < 0 && value.Type == StringValue || value.TTL <= 2*w.period+time.Second+clocksDiffer && value.TTL >= 0
	return Reading{Entries: []admin.Entry{entry}, Certain: certain}, nil
}

// upstashNever is why a counter has no expiry: the script of cachedFixedWindow compares a number
// with a text, so it never sets one.
const upstashNever = "cachedFixedWindow of @upstash/ratelimit never sets one"

// windowsOf returns the window at now and what is known of its limit. alone: the key is of
// another window, and was read by itself.
func (u upstash) windowsOf(found *Found, key *upstashKey, dynamic int64, values []Value) (
	w upstashWindows, limit store.Limit, alone bool) {
	w.window, limit = windowOf(found.Limit, key.index, time.Millisecond, time.Second, found.Now)
	if w.period < time.Millisecond { // which is what the limiter counts in
		w.period = 0
	}
	if limit.Count == 0 && dynamic > 0 || limit.Algorithm.HasBurst() {
		limit.Algorithm = store.FixedWindow
	}
	if dynamic > 0 {
		limit.Count, limit.Burst = dynamic, dynamic
	}
	if alone = len(values) == 1; w.period == 0 || alone {
		return w, limit, alone
	}
	if age := w.age(found.Now); age == 1 {
		w.index++
	}
	if found.Limit.Algorithm == 0 && slides(&values[0], w.window, found.Now) ||
		found.Limit.Algorithm == 0 && slides(&values[1], window{w.index - 1, w.period}, found.Now) {
		limit.Algorithm = store.SlidingCounter
	}
	return w, limit, false
}

// slides reports whether a window's key is kept for longer than a fixed window's can be: at most
// for a period after the window's end. One that slides is kept for a second more than that at
// least.
func slides(value *Value, w window, now store.Instant) bool {
	return value.Type != NoValue && value.TTL > w.until(now)+w.period+time.Second/2
}
