package layouts

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// bucketEntry is the entry of a token bucket that held so many tokens a while ago, and is refilled in steps of time,
// of which the next one has begun so long ago.
func bucketEntry(found *Found, tokens float64, ago, step, begun time.Duration) admin.Entry {
	entry := admin.Entry{Limit: withAlgorithm(found.Limit, store.TokenBucket), UsedUnknown: true}
	if !entry.LimitKnown() {
		return entry
	}
	capacity, interval := float64(entry.Limit.Capacity()), float64(entry.Limit.Period)/float64(entry.Limit.Count)
	ago = max(0, ago)
	held := min(capacity, tokens+float64(ago)/interval)
	heldEntry(&entry, held)
	until := func(wanted float64) time.Duration {
		if held >= wanted {
			return 0
		}
		wait := durationOf(math.Ceil((wanted-tokens)*interval/float64(step)) * float64(step))
		if wait == math.MaxInt64 || wait > math.MaxInt64+min(0, ago+begun) {
			return math.MaxInt64
		}
		return wait - ago - begun
	}
	entry.Allowed, entry.RetryAfter, entry.ResetAfter = held >= 1, until(1), until(capacity)
	return entry
}

// heldEntry fills in what follows of the tokens that a bucket holds now. They can be negative.
func heldEntry(entry *admin.Entry, tokens float64) {
	whole := toInt64(math.Floor(max(tokens, -store.MaxUsage)))
	entry.UsedUnknown = false
	entry.Remaining = max(0, whole)
	entry.Used = entry.Limit.Capacity() - whole
}

// durationOf returns so many ns, or the longest duration if they are more.
func durationOf(nanoseconds float64) time.Duration { return time.Duration(toInt64(nanoseconds)) }

// toInt64 rounds towards zero, and to the greatest or least number what is beyond it.
func toInt64(x float64) int64 {
	switch {
	case x >= math.MaxInt64:
		return math.MaxInt64
	case x <= math.MinInt64:
		return math.MinInt64
	}
	return int64(x) // of NaN it is never asked
}

// mulDiv returns (x·y+z)/d and the rest, or the greatest number if it is more, for x and y of at least 0 and d above 0.
func mulDiv(x, y, z, d int64) (quotient, rest int64) {
	high, low := bits.Mul64(uint64(x), uint64(y))
	low, carry := bits.Add64(low, uint64(z), 0)
	high += carry + uint64(z>>63)
	if high >= uint64(d) {
		return math.MaxInt64, 0
	}
	q, r := bits.Div64(high, low, uint64(d))
	if q > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(q), int64(r)
}

// wholeBucket is a token bucket in whole numbers, which is refilled by the token, or at the end of each period.
type wholeBucket struct {
	capacity   int64
	period     int64 // of a refill, in ns
	refill     int64 // tokens a period
	intervally bool  // all of a period's tokens come at its end, not one after another

	lastRefill int64 // ns since 1970
	tokens     int64 // below 0 if tokens were reserved
	error      int64 // what was left of the last division, in tokens·ns
}

// refillTo adds the tokens that have come by an instant in ns since 1970.
func (b *wholeBucket) refillTo(now int64) {
	if now <= b.lastRefill {
		return
	}
	since := now - b.lastRefill
	if b.intervally {
		since -= since % b.period
	}
	if since <= 0 {
		return
	}
	b.lastRefill += since
	if b.tokens >= b.capacity {
		return
	}
	come, rest := mulDiv(since, b.refill, b.error, b.period)
	// A sum that is too great for 64 bits has become less.
	if sum := b.tokens + come; sum >= b.capacity || sum < b.tokens {
		b.tokens, b.error = b.capacity, 0
	} else {
		b.tokens, b.error = sum, rest
	}
}

// wait returns how long it takes from now, an instant that the bucket was refilled to, until there are so many
// tokens, rounded down to whole ns, or the longest duration if that is less.
func (b *wholeBucket) wait(tokens, now int64) time.Duration {
	missing := tokens - b.tokens
	switch {
	case tokens <= b.tokens:
		return 0
	case missing <= 0:
		return math.MaxInt64
	case !b.intervally:
		wait, _ := mulDiv(b.period, missing, -b.error, b.refill)
		return time.Duration(wait)
	}
	wait, _ := mulDiv((missing-1)/b.refill+1, b.period, b.lastRefill-now, 1)
	return time.Duration(wait)
}

// used returns the tokens that are missing.
func (b *wholeBucket) used() int64 {
	used := b.capacity - b.tokens
	if used < 0 && b.tokens < 0 {
		return math.MaxInt64
	}
	return max(0, used)
}

// decodeTokenHash reads a bucket as hand-written limiters keep it: a hash of the tokens and of when they were refilled.
// That can be in seconds, ms, µs or ns, since nobody can take one for another. A bucket is Certain if it has no other
// fields, and expires. One that is kept for ever may be what somebody owns, such as the tokens of a game.
func decodeTokenHash(_ *row, found *Found) (Reading, error) {
	value := &found.Values[0]
	if value.Type != HashValue {
		return Reading{}, notA(value.Type, HashValue)
	}
	field, tokensText := "last_refill", ""
	text, has := value.Field(field)
	if !has {
		field = "last_refill_ts"
		text, has = value.Field(field)
	}
	if tokensText, _ = value.Field("tokens"); !has || tokensText == "" {
		return Reading{}, errors.New("a hash without the fields tokens and last_refill")
	}
	tokens, err := strconv.ParseFloat(tokensText, 64)
	if err != nil || !(math.Abs(tokens) <= math.MaxInt64) {
		return Reading{}, errors.New("a hash whose tokens are not a number")
	}
	number, err := strconv.ParseFloat(text, 64)
	unit, known := unitOf(number, found.Now)
	if err != nil || !known {
		return Reading{}, errors.New("a hash whose " + field + " is not a time")
	}
	ago := since(number, unit, found.Now)
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil { // which a float does not hold in ns
		ago = time.Duration(nanoseconds(found.Now) - whole*int64(unit))
	}
	entry := bucketEntry(found, tokens, ago, 1, 0)
	certain := value.Length == 2 && ago > -time.Minute && value.TTL >= 0 && value.TTL < longestLimit
	return lifetime{passes: true}.reading(found, entry, certain)
}

// unitOf returns what a time since 1970 is counted in, if it is of the last ten years or of the next one.
func unitOf(number float64, now store.Instant) (unit time.Duration, ok bool) {
	const oldest, newest = 10 * 366 * day, 366 * day
	for unit = time.Second; unit > 0; unit /= 1000 {
		ago := float64(nanoseconds(now)) - number*float64(unit)
		if ago <= float64(oldest) && ago >= -float64(newest) {
			return unit, true
		}
	}
	return 0, false
}

// since returns how long ago a time was that is counted in a unit. Times with a fraction are of clocks that count µs,
// as a float of seconds does not quite.
func since(number float64, unit time.Duration, now store.Instant) time.Duration {
	whole, part := math.Modf(number)
	return time.Duration(nanoseconds(now)-int64(whole)*int64(unit)) -
		time.Duration(part*float64(unit)).Round(time.Microsecond)
}

// decodeTraefik reads a bucket in a hash, with when it was last seen in µs since 1970 by the clock of Traefik. The
// steps are those of its script, for one request.
func decodeTraefik(_ *row, found *Found) (Reading, error) {
	value := &found.Values[0]
	if value.Type != HashValue {
		return Reading{}, notA(value.Type, HashValue)
	}
	lastText, hasLast := value.Field("last")
	tokensText, hasTokens := value.Field("tokens")
	if !hasLast || !hasTokens || value.Length != 2 {
		return Reading{}, errors.New("a hash without the fields last and tokens alone")
	}
	last, err := strconv.ParseFloat(lastText, 64) // before Redis 7 a script writes it with an exponent
	tokens, tokensErr := strconv.ParseFloat(tokensText, 64)
	if err != nil || tokensErr != nil || !(last >= 0 && last < 1<<53) || math.IsNaN(tokens) || math.IsInf(tokens, 0) {
		return Reading{}, errors.New("a hash whose last or tokens is not a number")
	}
	age := time.Duration(int64(found.Now)-int64(last)) * time.Microsecond
	entry, kept := bucketEntry(found, tokens, age, 1, 0), lifetime{passes: true}
	if entry.LimitKnown() {
		perSecond := float64(entry.Limit.Count) / entry.Limit.Period.Seconds()
		maxDelay := time.Second / 2 // for which a request waits for its token at most
		if kept.longest = 2 * time.Second; perSecond >= 1 {
			maxDelay = time.Second / (time.Duration(perSecond) * 2)
		} else {
			kept.longest = time.Second + time.Duration(1/perSecond)*time.Second
		}
		if entry.RetryAfter <= maxDelay {
			entry.Allowed, entry.Delay, entry.RetryAfter = true, entry.RetryAfter, 0
		}
	}
	// No other hash has these two fields, a time of Traefik's and such a key.
	return kept.reading(found, entry, age > -time.Minute && age < 366*day)
}

// decodeSpring reads a bucket in two strings, the tokens and when they were counted, in whole seconds by the clock of
// Redis. It is refilled at whole seconds. Both are written by every request, also by a denied one. A bucket without
// tokens or time is full, or has been empty since 1970, which is the same.
func decodeSpring(_ *row, found *Found) (Reading, error) {
	numbers := [2]float64{math.Inf(1), 0}
	for i := range numbers {
		value := &found.Values[i]
		if value.Type == NoValue {
			continue
		}
		if value.Type != StringValue {
			return Reading{}, notA(value.Type, StringValue)
		}
		number, err := strconv.ParseFloat(string(value.Text), 64)
		if err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
			return Reading{}, errors.New("a string that is not a number")
		}
		numbers[i] = number
	}
	tokens, counted := numbers[0], numbers[1]
	if tokens < 0 || counted < 0 || counted != math.Trunc(counted) || counted > math.MaxUint32 {
		return Reading{}, errors.New("impossible tokens or an impossible time")
	}
	now := time.Duration(nanoseconds(found.Now))
	at := time.Duration(counted) * time.Second
	seconds := now.Truncate(time.Second)
	entry := bucketEntry(found, tokens, seconds-at, time.Second, now-max(seconds, at))
	certain := found.Values[0].Type != NoValue && found.Values[1].Type != NoValue
	return lifetime{passes: true}.reading(found, entry, certain)
}
