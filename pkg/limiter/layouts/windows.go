package layouts

import (
	"cmp"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Many limiters number their windows from 1970 on, and put the number into the key: with the period p, the window at
// an instant t has the number floor(t/p). A key with the number n was written at about n·p, not long ago, since old
// keys expire, and few round periods fit that: of a minute the number tells the period to about one part in thirty
// million, of a day to one in twenty thousand.

// roundPeriods are what the periods of limits are multiples of, from the roundest on.
var roundPeriods = []time.Duration{
	90 * day, 30 * day, 7 * day, day, 12 * time.Hour, 6 * time.Hour, time.Hour, 30 * time.Minute, 10 * time.Minute,
	5 * time.Minute, time.Minute, 30 * time.Second, 10 * time.Second, 5 * time.Second, time.Second,
	500 * time.Millisecond, 100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond,
}

const (
	day = 24 * time.Hour
	// clocksDiffer is how much the clocks of clients and of the server may differ.
	clocksDiffer = 2 * time.Second
	// windowsKept is for how many periods from its beginning a limiter with window numbers needs the key of a window
	// at most: its own, the next one, and one more for those that set the expiry late.
	windowsKept = 3
	// byChance is how many times as far apart as the bounds of the period the round periods have to be, so that one
	// is rarely between them by chance.
	byChance = 50
)

// periodOfWindow returns the period, a multiple of unit, that a limiter must have whose key has a window's number, if
// the window is the one at now or shortly before. kept is how much longer than three periods it may keep its key. known
// is false if no round period fits, or it is of more than three months.
func periodOfWindow(index int64, unit, kept time.Duration, now store.Instant) (period time.Duration, known bool) {
	at := nanoseconds(now)
	if index <= 0 || index > at/int64(unit)+int64(clocksDiffer/unit)+1 {
		return 0, false
	}
	// The window began at index·period, which is from at−windowsKept·period−kept to at.
	least := (at - int64(kept+clocksDiffer)) / (index + windowsKept)
	most := (at + int64(clocksDiffer)) / index
	if most > int64(store.MaxPeriod) {
		return 0, false
	}
	for _, round := range roundPeriods {
		if round < unit || round%unit != 0 || (most-least)*byChance > int64(round) {
			continue
		}
		if multiple := most - most%int64(round); multiple > 0 && multiple >= least {
			return time.Duration(multiple), true
		}
	}
	return 0, false
}

// window is one of the windows that a limiter numbers from 1970 on.
type window struct {
	index  int64
	period time.Duration
}

// age returns which window it is at now: 0 for the one at now, 1 for the one before, less than 0 for one of a clock
// that is ahead.
func (w window) age(now store.Instant) int64 { return nanoseconds(now)/int64(w.period) - w.index }

// until returns how long it is from now to the end of the window, less than 0 if it is over.
func (w window) until(now store.Instant) time.Duration {
	return time.Duration((1-w.age(now))*int64(w.period) - nanoseconds(now)%int64(w.period))
}

// windowOf returns the window whose number a key has, and what is known of its limit. A limit that an operator gives
// counts for windows of its period. If the number is of another period, the count is not known. The window's period is
// 0 if it is not known.
func windowOf(said store.Limit, index int64, unit, kept time.Duration, now store.Instant) (
	w window, limit store.Limit) {
	w = window{index, said.Period}
	limit = withAlgorithm(said, store.FixedWindow)
	if said.Period > 0 {
		// Of the said period, and shortly before now?
		begun := w.age(now)
		if begun >= -int64(clocksDiffer/said.Period)-1 && begun <= windowsKept+int64((kept+clocksDiffer)/said.Period) {
			return w, limit
		}
	}
	if period, known := periodOfWindow(index, unit, kept, now); known {
		return window{index, period},
			counted(store.Limit{Algorithm: cmp.Or(limit.Algorithm, store.FixedWindow), Period: period}, said)
	}
	if said.Period > 0 && w.age(now) > 0 {
		return w, limit // a window long past, whose key was not deleted
	}
	if said.Period > 0 {
		limit = store.Limit{}
	}
	limit.Algorithm = cmp.Or(limit.Algorithm, store.FixedWindow)
	return window{index: index}, limit
}

// windowEntry is the entry of a counter of a window that ends after left. One that is over counts for nothing any
// more, and its number names it, too.
func windowEntry(key store.Key, limit store.Limit, count, number int64, left time.Duration) admin.Entry {
	if left > 0 {
		return countEntry(limit, count, left)
	}
	entry := countEntry(limit, 0, 0)
	entry.Key, entry.RetryTold = store.Key{Subject: key.Subject, Name: key.Name + "@" + strconv.FormatInt(number, 10)},
		true
	return entry
}

// agrees reports whether a key is kept for as long as it is expected to be, give or take.
func agrees(expected, ttl, by time.Duration) bool {
	return ttl >= 0 && ttl >= expected-clocksDiffer && ttl <= expected+by+clocksDiffer
}
