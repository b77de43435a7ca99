package layouts

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// logEntry fills in what follows of how long ago requests were, the oldest first. They are the latest of all. A
// request counts for less than the period, which is known.
func logEntry(entry *admin.Entry, ages []time.Duration, all int64) {
	period, count := entry.Limit.Period, entry.Limit.Count
	old := 0
	for old < len(ages) && ages[old] >= period {
		old++
	}
	counting := ages[old:]
	used := int64(len(counting))
	entry.ResetTold = true
	if used > 0 {
		entry.ResetAfter = period - counting[used-1]
	}
	if entry.Allowed = used < count; !entry.Allowed && count > 0 {
		// Allowed again when one less than the count is in the period.
		entry.RetryAfter, entry.RetryTold = period-counting[used-count], true
	}
	if entry.UsedUnknown = old == 0 && all > used; entry.UsedUnknown {
		return // how many more are in the period is not known
	}
	entry.Used, entry.Remaining = used, max(0, count-used)
}

// decodeTimeSet reads a sorted set with a member for each request, whose score is the time of the request in seconds,
// ms, µs or ns since 1970. None is Certain: one of the times of events, or of who was seen when, is the same.
func decodeTimeSet(_ *row, found *Found) (Reading, error) {
	value := &found.Values[0]
	switch {
	case value.Type != SortedSetValue:
		return Reading{}, notA(value.Type, SortedSetValue)
	case len(value.Members) == 0:
		return Reading{}, errors.New("an empty sorted set")
	}
	latest := value.Members[len(value.Members)-1].Score
	unit, ok := unitOf(latest, found.Now)
	ages := make([]time.Duration, len(value.Members))
	for i := range value.Members {
		score := value.Members[i].Score
		if !ok || !(score >= 0 && score <= latest) {
			return Reading{}, errors.New("a sorted set whose scores are not times")
		}
		ages[i] = since(score, unit, found.Now)
	}
	entry := admin.Entry{Limit: withAlgorithm(found.Limit, store.SlidingLog), UsedUnknown: true}
	kept := lifetime{passes: true}
	if entry.LimitKnown() {
		logEntry(&entry, ages, value.Length)
		kept.longest = entry.Limit.Period
	}
	entry.Defects = kept.defects(&entry, found.Values)
	if value.Length > MostMembers && entry.Limit.Count*10 < value.Length {
		entry.Defects = append(entry.Defects, admin.Defect{Kind: admin.Grows, Stuck: true,
			Text: "it only grows: nothing removes what was added"})
	}
	return Reading{Entries: []admin.Entry{entry}}, nil
}

// decodeDRF reads a pickled list of the times of requests in seconds, the latest first, by the application's clock. A
// denied request is not added.
func decodeDRF(_ *row, found *Found) (Reading, error) {
	value := &found.Values[0]
	if value.Type != StringValue {
		return Reading{}, notA(value.Type, StringValue)
	}
	times, whole, ok := pickledTimes(value.Text)
	if !ok || whole != (value.Length == int64(len(value.Text))) {
		return Reading{}, errors.New("not a pickled list of times")
	}
	entry := admin.Entry{Limit: drfLimit(found, times), UsedUnknown: true}
	ages := make([]time.Duration, len(times))
	for i, at := range times {
		ages[i] = since(at, time.Second, found.Now)
	}
	slices.Sort(ages) // processes race each other
	slices.Reverse(ages)
	all := int64(len(times))
	if !whole {
		all++
	}
	if entry.Limit.Period > 0 {
		logEntry(&entry, ages, all)
	}
	return lifetime{longest: entry.Limit.Period, passes: true}.reading(found, entry, value.TTL >= 0 && len(times) > 0)
}

// drfLimit returns what is known of the limit. Each request that is let through is added and sets the expiry to the
// period, so that they tell which it is of the few that the framework's rates have.
func drfLimit(found *Found, latest []float64) store.Limit {
	if said := withAlgorithm(found.Limit, store.SlidingLog); said.Period > 0 {
		return said
	}
	limit := counted(store.Limit{Algorithm: store.SlidingLog}, found.Limit)
	ttl := found.Values[0].TTL
	if len(latest) == 0 || ttl < 0 || ttl > 2*day {
		return limit
	}
	since := time.Duration((float64(found.Now)/1e6 - latest[0]) * float64(time.Second))
	for _, period := range []time.Duration{time.Second, time.Minute, time.Hour, day} {
		if (since + ttl - period).Abs() <= min(clocksDiffer, period/2) {
			limit.Period = period
		}
	}
	return limit
}

// The opcodes of Python's pickle that a list of floating-point numbers is written with, in its protocols 2 to 5. All
// others are refused, so that nothing of what they mean can happen.
const (
	pickleProto   = 0x80
	pickleList    = ']'
	pickleMemoize = 0x94
	pickleMark    = '('
	pickleFloat   = 'G' // and eight bytes, the highest first
	pickleAppends = 'e'
	pickleStop    = '.'
)

// pickled has how many bytes follow the opcodes: the protocol, the length of a frame, where the list is remembered.
var pickled = map[byte]int{pickleProto: 1, 0x95: 8, pickleList: 0, pickleMemoize: 0, 'q': 1, 'r': 4, pickleMark: 0,
	pickleFloat: 8, 'a': 0, pickleAppends: 0, pickleStop: 0}

// pickledTimes reads a list of times. whole is false if the text ends before the list does, which is fine if only the
// beginning of a long string was read: then the times are the first of the list.
func pickledTimes(text []byte) (times []float64, whole, ok bool) {
	lists := 0
	for at := 0; at < len(text); {
		opcode := text[at]
		size, known := pickled[opcode]
		if !known || (opcode == pickleProto) != (at == 0) {
			return nil, false, false
		}
		if at++; at+size > len(text) {
			break
		}
		switch argument := text[at : at+size]; opcode {
		case pickleProto:
			if argument[0] < 2 || argument[0] > 5 {
				return nil, false, false
			}
		case pickleList:
			lists++
		case pickleFloat:
			time := math.Float64frombits(binary.BigEndian.Uint64(argument))
			if lists != 1 || !(time > 0 && time <= math.MaxUint32) { // NaN fails, too
				return nil, false, false
			}
			times = append(times, time)
		case pickleStop:
			return times, true, lists == 1 && at == len(text)
		}
		at += size
	}
	return times, false, len(text) > 1
}
