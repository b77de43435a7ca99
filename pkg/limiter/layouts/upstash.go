package layouts

import (
	"errors"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// @upstash/ratelimit for JavaScript keeps counters of windows that are numbered from 1970 on, in a fixed window or a
// sliding one, or a token bucket in a hash. A limiter of several regions keeps other values, which are not read.

const (
	upstashPrefix = "@upstash/ratelimit"
	// leastUpstashWindow is a number that a window has which is not longer than a day. Numbers below it are more
	// often the ends of identifiers.
	leastUpstashWindow = 20_000
	// upstashNever is why a counter has no expiry: the script of cachedFixedWindow compares a number with a text, so
	// it never sets one.
	upstashNever = "cachedFixedWindow of @upstash/ratelimit never sets one"
)

// upstashOthers are what else the library keeps: the count of all limits, lists of who is denied, statistics.
var upstashOthers = keysLike(`^(?:@upstash/ratelimit[^:]*:)?` +
	`(?:dynamic:global|ipDenyListStatus|denyList:.*|events:.*|.*:dynamic:global)$`)

// upstashKey is a parsed store key.
type upstashKey struct {
	prefix string // empty if it is not the usual one
	id     string // the client, with an unusual prefix in front
	before string // the store key in front of the window's number
	index  int64  // the window's number, 0 if there is none
}

func parseUpstash(storeKey string) (key upstashKey, ok bool) {
	key.id = storeKey
	if strings.HasPrefix(storeKey, upstashPrefix) {
		if key.prefix, key.id, ok = strings.Cut(storeKey, ":"); !ok {
			return key, false
		}
	}
	if upstashOthers().MatchString(storeKey) {
		return key, false
	}
	if before, number, has := cutLast(key.id, ":"); has && before != "" {
		if index, is := windowNumber(number); is {
			key.id, key.index, key.before = before, index, strings.TrimSuffix(storeKey, number)
		}
	}
	return key, key.id != ""
}

// key is that of an entry. window: the number is a window's, and not of the client.
func (k *upstashKey) key(window bool) store.Key {
	key := store.Key{Subject: k.id, Name: "upstash"}
	if name := strings.TrimLeft(strings.TrimPrefix(k.prefix, upstashPrefix), "/-_."); name != "" {
		key.Name += "/" + name
	}
	if k.index > 0 && !window {
		key.Subject += ":" + strconv.FormatInt(k.index, 10)
	}
	return key
}

// matchUpstash: the key is "<prefix>:<id>" with the window's number behind, or without it.
func matchUpstash(storeKey string, _ bool) (store.Key, bool) {
	key, ok := parseUpstash(storeKey)
	return key.key(key.index >= leastUpstashWindow), ok
}

// upstashTogether: the first is the window at now, then the one before.
func upstashTogether(storeKey string, limit store.Limit, now store.Instant) []string {
	key, _ := parseUpstash(storeKey)
	if w, _ := key.window(limit, now); w.period > 0 {
		if age := w.age(now); age == 0 || age == 1 {
			at := key.index + age
			return []string{key.before + strconv.FormatInt(at, 10), key.before + strconv.FormatInt(at-1, 10)}
		}
	}
	return []string{storeKey}
}

func (k *upstashKey) window(said store.Limit, now store.Instant) (w window, limit store.Limit) {
	if k.index == 0 {
		return w, limit
	}
	return windowOf(said, k.index, time.Millisecond, time.Second, now)
}

func decodeUpstash(_ *row, found *Found) (Reading, error) {
	key, _ := parseUpstash(found.StoreKey)
	if !isThere(found.Values) {
		return Reading{}, nil
	}
	_, isBucket := found.Values[0].Field("refilledAt")
	decode := key.windows
	if isBucket = isBucket || key.index == 0; isBucket {
		decode = key.bucket
	}
	entry, certain, err := decode(found)
	if err != nil {
		return Reading{}, err
	}
	if key := key.key(!isBucket); key != found.Key && entry.Key == (store.Key{}) {
		entry.Key = key
	}
	return Reading{Entries: []admin.Entry{entry}, Certain: certain && key.prefix != ""}, nil
}

// bucket decodes a token bucket, which is refilled at the end of each period. With it the time to reset is that to
// the next refill, as the limiter itself has it. It is kept until it is full, counted from the last request.
func (k *upstashKey) bucket(found *Found) (entry admin.Entry, certain bool, err error) {
	value := &found.Values[0]
	numbers, err := numbersOf(value, "refilledAt", "tokens")
	if err != nil {
		return entry, false, err
	}
	refilledAt, tokens := numbers[0], numbers[1]
	if refilledAt < 0 || refilledAt > math.MaxInt64/1_000_000 || tokens > store.MaxCount || tokens < -store.MaxCount {
		return entry, false, errors.New("a hash whose refilledAt or tokens cannot be")
	}
	limit := withAlgorithm(found.Limit, store.TokenBucket)
	entry = admin.Entry{Limit: limit, UsedUnknown: true}
	certain = value.TTL != 0 && refilledAt <= int64(found.Now)/1000+clocksDiffer.Milliseconds()
	if entry.LimitKnown() {
		period, now := max(time.Millisecond, limit.Period.Truncate(time.Millisecond)), wholeMilliseconds(found.Now)
		b := wholeBucket{capacity: limit.Capacity(), period: int64(period), refill: limit.Count, intervally: true,
			lastRefill: refilledAt * int64(time.Millisecond), tokens: tokens}
		b.refillTo(now)
		entry.UsedUnknown = false
		entry.Used, entry.Remaining, entry.Allowed = b.used(), min(max(0, b.tokens), b.capacity), b.tokens >= 1
		if entry.Used > 0 {
			entry.ResetAfter = b.wait(b.tokens+1, now)
		}
		entry.RetryAfter = b.wait(1, now)
	}
	entry.Defects = lifetime{passes: true}.defects(&entry, found.Values[:1])
	return entry, certain, nil
}

// upstashWindows are the windows at an instant, as the limiter weighs them: in ms and in floats.
type upstashWindows struct {
	window            // the one at now
	current, previous int64
}

// weighed returns what a window still counts, ms milliseconds after the beginning of the next one.
func (w *upstashWindows) weighed(previous, ms int64) int64 {
	return int64(math.Floor((1 - float64(ms)/float64(w.period.Milliseconds())) * float64(previous)))
}

// fits reports whether a unit fits beside what is in use.
func (w *upstashWindows) fits(count, current, previous, ms int64) bool {
	return w.weighed(previous, ms)+current+1 <= count
}

// retry returns how many ms after the window's beginning a unit fits: in this window, from ms on, or in the next one,
// in which what is in this one is weighed.
func (w *upstashWindows) retry(count, ms int64) int64 {
	length := w.period.Milliseconds()
	for next, counts := range [2][2]int64{{w.current, w.previous}, {0, w.current}} {
		fits := func(i int) bool { return w.fits(count, counts[0], counts[1], ms+int64(i)) }
		if at := int64(sort.Search(int(length-ms), fits)); at < length-ms {
			return int64(next)*length + ms + at
		}
		ms = 0
	}
	return 2 * length
}

// windows decodes the counters of windows. A window of one that is fixed is kept for its period from its first request
// on, one of one that slides for longer than the next window. So the TTL tells which it is, if the operator does not.
func (k *upstashKey) windows(found *Found) (entry admin.Entry, certain bool, err error) {
	values := found.Values
	counts, err := countsOf(values)
	if err != nil {
		return entry, false, err
	}
	sum := func(count int64) int64 { return min(max(0, count), math.MaxInt64/4) }
	w := upstashWindows{current: sum(counts[0]), previous: sum(counts[1])}
	limit := k.slide(&w, found)
	value := &values[0]
	if value.Type == NoValue {
		value = &values[1]
	}
	unlimited := value.TTL < 0
	kept := lifetime{passes: true, never: upstashNever}
	if w.period == 0 {
		entry = admin.Entry{Limit: limit, UsedUnknown: true}
		entry.Defects = kept.defects(&entry, values[:1])
		return entry, unlimited && k.index >= leastUpstashWindow, nil // one that stays is likely of a window long past
	}
	kept.longest = 2*w.period + time.Second
	left, ms := w.until(found.Now), int64(found.Now)/1000%w.period.Milliseconds()
	if slides := left > 0 && limit.Algorithm != store.FixedWindow; slides {
		entry = countEntry(limit, w.weighed(w.previous, ms)+w.current, left)
		if entry.CapacityKnown() {
			entry.Allowed, entry.RetryAfter = w.fits(limit.Count, w.current, w.previous, ms), 0
			if !entry.Allowed {
				begun := time.Duration(nanoseconds(found.Now) % int64(w.period))
				entry.RetryAfter = time.Duration(w.retry(limit.Count, ms))*time.Millisecond - begun
			}
		}
	} else {
		entry = windowEntry(k.key(true), limit, w.current, k.index, left)
	}
	entry.Defects = kept.defects(&entry, values)
	return entry, unlimited || value.TTL <= kept.longest+clocksDiffer && value.TTL >= 0, nil
}

// slide finds the window at now, whose period is 0 if it is not known, and returns what is known of the limit.
func (k *upstashKey) slide(w *upstashWindows, found *Found) (limit store.Limit) {
	values := found.Values
	w.window, limit = k.window(found.Limit, found.Now)
	if w.period < time.Millisecond { // which is what the limiter counts in
		w.period = 0
	}
	if limit.Algorithm.HasBurst() {
		limit.Algorithm = store.FixedWindow
	}
	if w.period == 0 || len(values) == 1 { // it is of another window, and was read by itself
		return limit
	}
	if w.age(found.Now) == 1 {
		w.index++
	}
	for i := range values {
		// A fixed window's key is kept for a period after its end at most, one that slides a second more than that at
		// least.
		ends := window{w.index - int64(i), w.period}.until(found.Now)
		if found.Limit.Algorithm == 0 && values[i].Type != NoValue && values[i].TTL > ends+w.period+time.Second/2 {
			limit.Algorithm = store.SlidingCounter
		}
	}
	return limit
}
