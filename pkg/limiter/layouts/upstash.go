package layouts

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// upstash is @upstash/ratelimit for JavaScript: counters of windows that are numbered from 1970
// on, in a fixed window or a sliding one, or a token bucket in a hash. A limiter of several
// regions keeps a hash of requests and their costs in place of a counter.
type upstash struct{}

const (
	upstashPrefix  = "@upstash/ratelimit"
	upstashDynamic = ":dynamic:global" // behind the prefix: the count of all limits with it
	// leastUpstashWindow is a number that a window has which is not longer than a day. Numbers
	// below it are more often the ends of identifiers.
	leastUpstashWindow = 20_000
)

// Info implements [Layout]. The facts are from github.com/upstash/ratelimit-js 5b5448a5.
func (upstash) Info() Info {
	return Info{
		Name: "upstash", Writer: "@upstash/ratelimit", Example: "@upstash/ratelimit:203.0.113.9:29921572",
		Prefixes: []string{upstashPrefix}, Needs: "the count; of a token bucket the limit and the burst",
		Beyond: "Processes with an ephemeral cache, which is the default, go on denying until the time that they were told; " +
			"cachedFixedWindow counts in their memory.",
	}
}

// upstashKey is a parsed store key.
type upstashKey struct {
	prefix string // empty if it is not the usual one
	id     string // the client, with an unusual prefix in front
	before string // the store key in front of the window's number
	index  int64  // the window's number, 0 if there is none
}

func (upstash) parse(storeKey string) (key upstashKey, ok bool) {
	rest := storeKey
	if strings.HasPrefix(storeKey, upstashPrefix) {
		key.prefix, rest, ok = strings.Cut(storeKey, ":")
		if !ok {
			return key, false
		}
	}
	key.id = rest
	for _, other := range [...]string{"dynamic:global", "denyList:", "ipDenyListStatus", "events:"} {
		if rest == other || strings.HasSuffix(other, ":") && strings.HasPrefix(rest, other) || strings.HasSuffix(rest, upstashDynamic) {
			return key, false
		}
	}
	if before, number, has := cutLastColon(rest); has && before != "" {
		if index, is := windowNumber(number); is {
			key.id, key.index = before, index
			key.before = strings.TrimSuffix(storeKey, number)
		}
	}
	return key, key.id != ""
}

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

// Match implements [Layout]. The key is "<prefix>:<id>" with the window's number behind, or
// without it.
func (u upstash) Match(storeKey string, asked bool) (store.Key, bool) {
	key, ok := u.parse(storeKey)
	ok = ok && !strings.HasSuffix(storeKey, upstashDynamic) // which is the limit of all, and nobody's count
	return key.key(key.index >= leastUpstashWindow), ok && (asked || key.prefix != "")
}

// Together implements [Layout]. The first is the window at now, then the one before, then the
// keys that may have the count of all.
func (u upstash) Together(storeKey string, limit store.Limit, now store.Instant) []string {
	key, _ := u.parse(storeKey)
	storeKeys := []string{storeKey}
	if w := u.window(&key, limit, now); w.period > 0 {
		if age := w.age(now); age == 0 || age == 1 {
			at := key.index + age
			storeKeys = []string{key.before + strconv.FormatInt(at, 10), key.before + strconv.FormatInt(at-1, 10)}
		}
	}
	if key.prefix != "" {
		return append(storeKeys, key.prefix+upstashDynamic)
	}
	// The prefix ends at one of the colons.
	const most = 3
	for at := range len(key.id) {
		if key.id[at] == ':' && len(storeKeys) < 2+most {
			storeKeys = append(storeKeys, key.id[:at]+upstashDynamic)
		}
	}
	return storeKeys
}

func (upstash) window(key *upstashKey, said store.Limit, now store.Instant) window {
	if key.index == 0 {
		return window{}
	}
	w, _ := windowOf(said, key.index, time.Millisecond, time.Second, now)
	return w
}

// Decode implements [Layout].
func (u upstash) Decode(found *Found) (Reading, error) {
	key, _ := u.parse(found.StoreKey)
	values, dynamic, err := u.split(found)
	if err != nil {
		return Reading{}, err
	}
	if values[0].Type == NoValue && (len(values) == 1 || values[1].Type == NoValue) {
		return Reading{}, nil
	}
	said := found.Limit
	var reading Reading
	if _, is := values[0].Field("refilledAt"); is || key.index == 0 {
		if dynamic > 0 && said.Count > 0 {
			said.Burst = dynamic
		}
		reading, err = u.bucket(found, said, &values[0])
		if key := key.key(false); err == nil && key != found.Key {
			reading.Entries[0].Key = key
		}
	} else {
		reading, err = u.windows(found, &key, dynamic, values)
		if key := key.key(true); err == nil && key != found.Key && reading.Entries[0].Key == (store.Key{}) {
			reading.Entries[0].Key = key
		}
	}
	if err != nil {
		return Reading{}, err
	}
	reading.Certain = reading.Certain && key.prefix != ""
	entry := &reading.Entries[0]
	entry.Record.Members = partsOf(values) // and not the count of all
	return reading, nil
}

// split returns the values that are the limit's own, and the count of all limits, 0 if there is
// none. Of several prefixes the longest is the limiter's.
func (upstash) split(found *Found) (values []Value, dynamic int64, err error) {
	for i := range found.Values {
		value := &found.Values[i]
		if !strings.HasSuffix(value.StoreKey, upstashDynamic) {
			values = append(values, *value)
			continue
		}
		if value.Type == NoValue {
			continue
		}
		if dynamic, err = countOf(value); err != nil || dynamic < 1 || dynamic > math.MaxInt64/4 {
			return nil, 0, errors.New("a limit of all, under a key that ends in " + upstashDynamic + ", that is not a count")
		}
	}
	return values, dynamic, nil
}

// upstashSum returns what a window's value counts. unknown: it has more requests than were read.
func upstashSum(value *Value) (sum int64, unknown bool, err error) {
	switch value.Type {
	case NoValue:
		return 0, false, nil
	case StringValue:
		sum, err = countOf(value)
		return sum, false, err
	case HashValue:
		for i := range value.Members {
			cost, err := strconv.ParseInt(value.Members[i].Text, 10, 32)
			if err != nil {
				return 0, false, errors.New("a hash with a field that is not a cost")
			}
			sum += cost
		}
		return sum, value.Length > int64(len(value.Members)), nil
	default: // handled below
	}
	return 0, false, notA(value.Type, StringValue, HashValue)
}

// upstashBucket is a token bucket at an instant, in the whole steps that the limiter makes.
type upstashBucket struct {
	tokens, refilledAt int64 // refilledAt in ms since 1970
}

func upstashBucketOf(value *Value) (b upstashBucket, err error) {
	if value.Type != HashValue {
		return b, notA(value.Type, HashValue)
	}
	refilled, _ := value.Field("refilledAt")
	tokens, _ := value.Field("tokens")
	b.refilledAt, err = strconv.ParseInt(refilled, 10, 64)
	var tokensErr error
	b.tokens, tokensErr = strconv.ParseInt(tokens, 10, 64)
	if err != nil || tokensErr != nil || value.Length != 2 || b.refilledAt < 0 || b.refilledAt > math.MaxInt64/1_000_000 ||
		b.tokens > store.MaxCount || b.tokens < -store.MaxCount {
		return b, errors.New("a hash without the numbers refilledAt and tokens alone")
	}
	return b, nil
}

// refill brings a bucket to now.
func (b *upstashBucket) refill(limit store.Limit, now store.Instant) {
	interval := max(1, limit.Period.Milliseconds())
	refills := (int64(now)/1000 - b.refilledAt) / interval
	if refills <= 0 {
		return
	}
	b.refilledAt += refills * interval
	b.tokens = min(limit.Capacity(), b.tokens+min(refills, 2*store.MaxCount)*limit.Count)
}

// bucket decodes a token bucket. With it the time to reset is that to the next refill, as the
// limiter itself has it.
func (upstash) bucket(found *Found, said store.Limit, value *Value) (Reading, error) {
	b, err := upstashBucketOf(value)
	if err != nil {
		return Reading{}, err
	}
	now := int64(found.Now) / 1000
	entry := admin.Entry{Limit: withAlgorithm(said, store.TokenBucket), UsedUnknown: true}
	certain := value.TTL != 0 && b.refilledAt <= now+clocksDiffer.Milliseconds()
	var needed time.Duration
	if entry.LimitKnown() {
		b.refill(entry.Limit, found.Now)
		capacity := entry.Limit.Capacity()
		entry.UsedUnknown = false
		entry.Used, entry.Remaining, entry.Allowed = capacity-b.tokens, max(0, b.tokens), b.tokens >= 1
		next := time.Duration(b.refilledAt-now)*time.Millisecond + entry.Limit.Period
		if entry.Used > 0 {
			entry.ResetAfter = next
			needed = plus(next, repeated((entry.Used-1)/entry.Limit.Count, entry.Limit.Period))
		}
		if !entry.Allowed {
			entry.RetryAfter = plus(next, repeated(-b.tokens/entry.Limit.Count, entry.Limit.Period))
		}
	}
	// It is kept until it is full, counted from the last request.
	entry.Defects = lifetime{needed: needed, passes: true}.defects(&entry, []Value{*value})
	return Reading{Entries: []admin.Entry{entry}, Certain: certain}, nil
}
