package layouts

import (
	"errors"
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// timeSet is a sliding log as hand-written limiters keep it: a sorted set with a member for
// each request, whose score is the time of the request in seconds, ms, µs or ns since 1970.
type timeSet struct{ single }

// Info implements [Layout].
func (timeSet) Info() Info {
	return Info{
		Name: "time-set", Writer: "hand-written sliding logs: a sorted set of the times of requests",
		Example: "rate_limit:203.0.113.9", Needs: "the limit",
	}
}

// Match implements [Layout]. Keys are anything.
func (l timeSet) Match(storeKey string, asked bool) (store.Key, bool) {
	return store.Key{Subject: storeKey, Name: l.Info().Name}, storeKey != "" && (asked || isNamedLikeALimiter(storeKey))
}

// Decode implements [Layout]. No set is Certain: one of the times of events, or of who was seen
// when, is the same.
func (timeSet) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	switch {
	case value.Type != SortedSetValue:
		return Reading{}, notA(value.Type, SortedSetValue)
	case len(value.Members) == 0:
		return Reading{}, errors.New("an empty sorted set")
	}
	ages, err := agesOf(value.Members, found.Now)
	if err != nil {
		return Reading{}, err
	}
	entry := admin.Entry{Limit: withAlgorithm(found.Limit, store.SlidingLog), UsedUnknown: true}
	kept := lifetime{passes: true}
	if entry.LimitKnown() {
		loggedEntry(&entry, ages, value.Length)
		kept.longest, kept.needed = entry.Limit.Period, entry.ResetAfter
	}
	entry.Defects = kept.defects(&entry, found.Values)
	if value.Length > MostMembers && entry.Limit.Count*10 < value.Length {
		entry.Defects = append(entry.Defects, admin.Defect{Kind: admin.Grows, Stuck: true,
			Text: "it only grows: nothing removes what was added"})
	}
	return Reading{Entries: []admin.Entry{entry}}, nil
}

// agesOf returns how long ago the requests of a log were, the oldest first.
func agesOf(members []Member, now store.Instant) (ages []time.Duration, err error) {
	unit, ok := unitOf(members[len(members)-1].Score, now)
	if !ok {
		return nil, errors.New("a sorted set whose scores are not times")
	}
	ages = make([]time.Duration, len(members))
	for i := range members {
		if score := members[i].Score; !(score >= 0 && score <= members[len(members)-1].Score) {
			return nil, errors.New("a sorted set whose scores are not times")
		}
		whole, part := math.Modf(members[i].Score)
		ages[i] = time.Duration(nanoseconds(now)-int64(whole)*int64(unit)) - time.Duration(part*float64(unit)).Round(time.Microsecond)
	}
	return ages, nil
}

// loggedEntry fills in what follows of the ages of requests, the oldest first. A request counts
// for less than the period. The oldest are missing if there are more in all.
func loggedEntry(entry *admin.Entry, ages []time.Duration, all int64) {
	limit := &entry.Limit
	old := 0
	for old < len(ages) && ages[old] >= limit.Period {
		old++
	}
	counting := ages[old:]
	if len(counting) > 0 {
		entry.ResetAfter, entry.ResetTold = limit.Period-counting[len(counting)-1], true
	}
	free := limit.Count - int64(len(counting))
	if entry.Allowed = free > 0; !entry.Allowed {
		// Allowed again when one less than the count is in the period.
		entry.RetryAfter, entry.RetryTold = limit.Period-counting[int64(len(counting))-limit.Count], true
	}
	if old == 0 && all > int64(len(ages)) {
		return // how many more are in the period is not known
	}
	entry.UsedUnknown = false
	entry.Used, entry.Remaining = int64(len(counting)), max(0, free)
}
