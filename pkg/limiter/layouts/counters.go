package layouts

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// countOf reads a counter as INCR keeps it. Nobody else's number has a sign, a zero in front or a fraction.
func countOf(value *Value) (int64, error) {
	if value.Type != StringValue {
		return 0, notA(value.Type, StringValue)
	}
	count, err := strconv.ParseInt(string(value.Text), 10, 64)
	if err != nil || value.Length != int64(len(value.Text)) || strconv.FormatInt(count, 10) != string(value.Text) {
		return 0, errors.New("a string that is not a whole number")
	}
	return count, nil
}

// countsOf reads one or two counters. One that is gone counts nothing.
func countsOf(values []Value) (counts [2]int64, err error) {
	for i := range values {
		if values[i].Type == NoValue {
			continue
		}
		if counts[i], err = countOf(&values[i]); err != nil {
			return counts, err
		}
	}
	return counts, nil
}

// countEntry is the entry of a limiter that counts requests, and begins anew after a while; less than 0 if it is not
// known when, or never. What is below 0 was given back ahead.
func countEntry(limit store.Limit, count int64, ends time.Duration) admin.Entry {
	entry := admin.Entry{Limit: limit, ResetTold: ends >= 0}
	count = max(count, -store.MaxUsage) // nobody gives back more
	if entry.Used = max(0, count); entry.Used > 0 {
		entry.ResetAfter = max(0, ends)
	}
	if !entry.CapacityKnown() {
		return entry
	}
	entry.Remaining = max(0, limit.Count-count)
	if entry.Allowed = count < limit.Count; !entry.Allowed {
		entry.RetryAfter = max(0, ends)
	}
	entry.RetryTold = entry.Allowed || ends >= 0
	return entry
}

// blockEntry makes an entry that of a client which is blocked for a while, whatever he has used.
func blockEntry(entry *admin.Entry, blocked time.Duration) {
	entry.RetryAfter, entry.ResetAfter = max(blocked, entry.RetryAfter), max(blocked, entry.ResetAfter)
	entry.Allowed, entry.Remaining, entry.RetryTold, entry.ResetTold = false, 0, true, true
	if entry.Used == 0 {
		entry.Used, entry.UsedUnknown = entry.Limit.Capacity(), !entry.CapacityKnown()
	}
}

// withAlgorithm returns the given part of a limit, with a default algorithm and burst.
func withAlgorithm(said store.Limit, algorithm store.Algorithm) store.Limit {
	if said.Algorithm == 0 && said != (store.Limit{}) {
		said.Algorithm = algorithm
	}
	if said.Burst == 0 {
		said.Burst = said.Count
	}
	return said
}

// fromFirst returns the given part of a limit. By default its window begins with its first request.
func fromFirst(said store.Limit) store.Limit {
	limit := withAlgorithm(said, store.FixedWindow)
	limit.FromFirst = limit.Algorithm == store.FixedWindow
	return limit
}

// counted returns a limit whose period is known, with the count that an operator gives for limits of that period, or
// of any.
func counted(limit, said store.Limit) store.Limit {
	if said.Period == 0 || said.Period == limit.Period {
		limit.Count, limit.Burst = said.Count, said.Count
	}
	return limit
}

// count decodes a counter whose window begins with the first request, and ends with its key.
func (r *row) count(found *Found) (Reading, error) {
	value := &found.Values[0]
	count, err := countOf(value)
	if err == nil && count < 0 && r.noTTL == counts {
		err = errors.New("a negative count")
	}
	if err != nil {
		return Reading{}, err
	}
	certain := r.certain != nil && r.certain(found, count)
	limit, ends := fromFirst(found.Limit), value.TTL
	kept := lifetime{longest: limit.Period, never: r.never}
	unknown := false
	if r.remains != nil && r.remains(found.StoreKey) {
		count, unknown = limit.Count-max(count, -store.MaxUsage), limit.Count == 0 && ends > 0
	}
	switch {
	case r.noTTL == blocks: // the time to wait is the TTL also of a block, which is longer than the period
		return Reading{Entries: []admin.Entry{countEntry(limit, count, ends)}, Certain: certain}, nil
	case r.noTTL == beginsAnew && ends <= 0:
		count, ends, kept.passes = 0, 0, true
	case ends < 0 && limit.Period > 0: // nothing better can be said, and the library says so
		ends = limit.Period
	}
	entry := countEntry(limit, count, ends)
	if unknown {
		entry.Used, entry.UsedUnknown, entry.ResetAfter = 0, true, ends
	}
	return kept.reading(found, entry, certain)
}

func isOldAPISIX(storeKey string) bool { return !strings.HasPrefix(storeKey, "plugin-limit-count:v1:") }

func isAPISIX(found *Found, _ int64) bool {
	return found.Values[0].TTL > 0 || !isOldAPISIX(found.StoreKey)
}

func isUlules(found *Found, _ int64) bool {
	address, usual := strings.CutPrefix(found.StoreKey, "limiter:")
	return usual && isAddress(address) && found.Values[0].TTL >= 0 && found.Values[0].TTL < longestLimit
}

func isRlflx(found *Found, points int64) bool {
	return strings.HasPrefix(found.StoreKey, "rlflx:") && points >= 0 && couldBePeriod(found.Values[0].TTL)
}

// isExpress: only hits that are taken back leave a counter without an expiry, so it is below 0. A client is an
// address, or the network of one of IPv6, unless it is configured otherwise.
func isExpress(found *Found, hits int64) bool {
	subject, usual := strings.CutPrefix(found.StoreKey, "rl:")
	if network, err := netip.ParsePrefix(subject); !isAddress(subject) && (err != nil || !network.Addr().Is6()) {
		return false
	}
	ttl := found.Values[0].TTL
	return usual && (couldBePeriod(ttl) || ttl <= 0 && hits < 0)
}

// couldBePeriod reports whether a TTL is one that a counter of a limit can have.
func couldBePeriod(ttl time.Duration) bool { return ttl > 0 && ttl <= store.MaxPeriod }

// decodeDjango: denied requests count, too. Since nobody knows when the window ends, the period of the limit is left
// out. A counter is kept from the first request on for five seconds more than the period.
func decodeDjango(_ *row, found *Found) (Reading, error) {
	value := &found.Values[0]
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	limit, kept := store.Limit{Algorithm: store.FixedWindow, Count: found.Limit.Count, Burst: found.Limit.Count},
		lifetime{passes: true}
	if found.Limit.Period > 0 {
		kept.longest = found.Limit.Period + 5*time.Second
	}
	return kept.reading(found, countEntry(limit, count, -1), value.TTL > 0 && value.TTL < longestLimit)
}

// decodeNestJS reads a counter and a key that is there while the client is blocked, from the first request above the
// limit on. Neither denies for ever without an expiry: the next request gives one to the counter, and ends such a
// block.
func decodeNestJS(_ *row, found *Found) (Reading, error) {
	counter, block := &found.Values[0], &found.Values[1]
	counts, err := countsOf(found.Values)
	if err != nil {
		return Reading{}, err
	}
	hits, isBlocked := counts[0], block.Type != NoValue
	if isBlocked && block.TTL <= 0 {
		hits, isBlocked = 0, false // with the next request a new count begins
	}
	entry := countEntry(fromFirst(found.Limit), hits, max(0, counter.TTL))
	if counter.TTL < 0 && hits > 0 {
		entry.ResetTold, entry.RetryTold = false, entry.Allowed
	}
	if isBlocked {
		blockEntry(&entry, block.TTL)
	}
	isHash := len(found.Key.Subject) == 64 && strings.Trim(found.Key.Subject, hexDigits) == ""
	return lifetime{passes: true}.reading(found, entry, isHash && counter.TTL <= store.MaxPeriod &&
		block.TTL <= store.MaxPeriod)
}

// matchLaravel: a key is the prefix of the connection, that of the cache, and a name, which usually is a hash: MD5 of
// a named limiter, SHA-1 of a user or an address. The prefixes are made of the application's name, so the hash is all
// that is usual. A prefix may end in what looks like a digit of the hash, but ends in a mark if it is usual.
func matchLaravel(storeKey string, asked bool) (store.Key, bool) {
	counter := strings.TrimSuffix(storeKey, ":timer")
	name := strings.TrimSuffix(counter, "}") // of Redis::throttle in the newest versions
	prefix := strings.TrimRight(name, hexDigits)
	if n := len(name) - len(prefix); (n == 32 || n == 40) &&
		(prefix == "" || strings.ContainsAny(prefix[len(prefix)-1:], ":_-{")) {
		return store.Key{Subject: name[len(prefix):], Name: "laravel"}, true
	}
	return store.Key{Subject: counter, Name: "laravel"}, asked && counter != ""
}

const hexDigits = "0123456789abcdef"

// decodeLaravel reads a counter and a timer, the Unix time in seconds at which its window ends, or the hash of
// Redis::throttle, which is also behind the middleware ThrottleRequestsWithRedis.
func decodeLaravel(_ *row, found *Found) (Reading, error) {
	counter, timer := &found.Values[0], &found.Values[1]
	switch {
	case counter.Type == NoValue:
		return Reading{}, nil // a timer alone counts nothing
	case counter.Type == HashValue:
		return decodeDurationLimiter(found)
	case counter.Type != StringValue:
		return Reading{}, notA(counter.Type, StringValue, HashValue)
	}
	numbers, err := countsOf(found.Values)
	if err != nil {
		return Reading{}, err
	}
	count, limit := numbers[0], fromFirst(found.Limit)
	if timer.Type == NoValue {
		// At the limit the count begins anew, below it goes on with the next request.
		if limit.Count > 0 && count >= limit.Count {
			count = 0
		}
		return lifetime{passes: true}.reading(found, countEntry(limit, count, counter.TTL), false)
	}
	// The counter may be kept for longer than its timer, which is what denies.
	entry := countEntry(limit, count, timer.TTL)
	entry.Defects = lifetime{}.defects(&entry, found.Values[1:])
	if len(entry.Defects) == 0 {
		entry.Defects = lifetime{passes: true}.defects(&entry, found.Values[:1])
	}
	left := time.Unix(numbers[1], 0).Sub(found.Now.Time())
	return Reading{Entries: []admin.Entry{entry}, Certain: count >= 0 && agrees(left, timer.TTL, time.Second)}, nil
}

// decodeDurationLimiter reads the hash of Redis::throttle: the window's start, its end and the count.
func decodeDurationLimiter(found *Found) (Reading, error) {
	value := &found.Values[0]
	numbers, err := numbersOf(value, "start", "end", "count")
	if err != nil {
		return Reading{}, err
	}
	start, end, count := numbers[0], numbers[1], numbers[2]
	if latest := int64(found.Now)/1_000_000 + int64(2*store.MaxPeriod/time.Second); min(start, count) < 0 ||
		start > end || end > latest {
		return Reading{}, errors.New("a hash whose start and end are not times of a window")
	}
	limit := counted(store.Limit{Algorithm: store.FixedWindow, FromFirst: true,
		Period: time.Duration(end-start) * time.Second},
		found.Limit)
	left := time.Unix(end, 0).Sub(found.Now.Time())
	certain := agrees(left+limit.Period, value.TTL, 0)
	if left < 0 || limit.Period == 0 {
		count, left = 0, 0 // it is over
	}
	entry := countEntry(limit, count, left)
	entry.Defects = lifetime{longest: 2 * limit.Period, passes: true}.defects(&entry, found.Values[:1])
	return Reading{Entries: []admin.Entry{entry}, Certain: certain}, nil
}

// numbersOf reads whole numbers in the fields of a hash that has no others.
func numbersOf(value *Value, fields ...string) (numbers []int64, err error) {
	if value.Type != HashValue {
		return nil, notA(value.Type, HashValue)
	}
	for _, field := range fields {
		text, _ := value.Field(field)
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil || value.Length != int64(len(fields)) {
			last := len(fields) - 1
			return nil, errors.New("a hash without the numbers " + strings.Join(fields[:last], ", ") + " and " +
				fields[last] + " alone")
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}

// notA says that a value has another type than the limiter's.
func notA(is ValueType, expected ...ValueType) error {
	text := string(expected[0])
	for _, other := range expected[1:] {
		text += " or " + string(other)
	}
	return errors.New("a " + string(is) + ", not a " + text)
}

// isThere reports whether any of the values is.
func isThere(values []Value) bool {
	return slices.ContainsFunc(values, func(v Value) bool { return v.Type != NoValue })
}
