package layouts

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// countOf reads a counter as INCR keeps it. Nobody else's number has a sign, a zero in front or
// a fraction.
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

// countEntry is the entry of a limiter that counts requests, and begins anew after a while; less
// than 0 if it is not known when, or never. What is below 0 was given back ahead.
func countEntry(limit store.Limit, count int64, ends time.Duration) admin.Entry {
	entry := admin.Entry{Limit: limit, ResetTold: ends >= 0}
	count = max(count, -store.MaxUsage) // nobody gives back more
	entry.Used, entry.ResetAfter = max(0, count), max(0, ends)
	if entry.Used == 0 {
		entry.ResetAfter = 0
	}
	if !entry.CapacityKnown() {
		return entry
	}
	entry.Remaining = max(0, limit.Count-count)
	entry.Allowed = count < limit.Count
	if !entry.Allowed {
		entry.RetryAfter = max(0, ends)
	}
	entry.RetryTold = entry.Allowed || ends >= 0
	return entry
}

// pastEntry is the entry of a window that counts for nothing any more. Its number names it, too.
func pastEntry(key store.Key, limit store.Limit, number int64) admin.Entry {
	entry := countEntry(limit, 0, 0)
	entry.Key = store.Key{Subject: key.Subject, Name: key.Name + "@" + strconv.FormatInt(number, 10)}
	return entry
}

// fromFirst returns the given part of a limit. By default its window begins with its first request.
func fromFirst(said store.Limit) store.Limit {
	limit := withAlgorithm(said, store.FixedWindow)
	limit.FromFirst = limit.Algorithm == store.FixedWindow
	return limit
}

// couldBePeriod reports whether a TTL is one that a counter of a limit can have.
func couldBePeriod(ttl time.Duration) bool { return ttl > 0 && ttl <= store.MaxPeriod }

// blockEntry makes an entry that of a client which is blocked for a while, whatever he has used.
func blockEntry(entry *admin.Entry, blocked time.Duration) {
	entry.RetryAfter, entry.ResetAfter = max(blocked, entry.RetryAfter), max(blocked, entry.ResetAfter)
	entry.Allowed, entry.Remaining, entry.RetryTold, entry.ResetTold = false, 0, true, true
	if entry.Used == 0 {
		entry.Used, entry.UsedUnknown = entry.Limit.Capacity(), !entry.CapacityKnown()
	}
}

// logEntry fills in what is in use of a limit whose requests are kept with their times, in ns in
// ascending order, the latest ones of length in all. A request counts until it is one period old.
// now is in ns, too. The count may be unknown.
func logEntry(entry *admin.Entry, times []int64, length, now int64) {
	period, count := int64(entry.Limit.Period), entry.Limit.Count
	first, _ := slices.BinarySearch(times, now-period+1)
	inUse := times[first:]
	if first == 0 && length > int64(len(times)) {
		return // there are more of them than were read
	}
	entry.UsedUnknown, entry.ResetTold = false, true
	entry.Used = int64(len(inUse))
	if entry.Used > 0 {
		entry.ResetAfter = ceilMicroseconds(float64(inUse[len(inUse)-1] - now + period))
	}
	if !entry.CapacityKnown() {
		return
	}
	entry.Remaining = max(0, count-entry.Used)
	entry.Allowed = entry.Used < count
	if !entry.Allowed {
		entry.RetryAfter = ceilMicroseconds(float64(inUse[entry.Used-count] - now + period))
	}
}
