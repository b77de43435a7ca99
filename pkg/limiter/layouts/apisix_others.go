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

// apisixRequestKeys returns the store keys of limit-req that belong to one: a hash, or in earlier
// releases two strings. client is who is limited, as far as the key says; the kind and the
// version of the configuration are behind it.
func apisixRequestKeys(storeKey string) (first, second, client string) {
	for _, field := range []string{"excess", "last"} {
		if stem, ok := strings.CutSuffix(storeKey, field); ok && stem != apisixRequest {
			return stem + "excess", stem + "last", strings.TrimPrefix(stem, apisixRequest)
		}
	}
	return storeKey, "", strings.TrimPrefix(storeKey, apisixRequest)
}

// apisixLeaky is what limit-req keeps: how many thousandths of a request were above the rate at
// an instant in ms, without the request of that instant.
type apisixLeaky struct{ excess, last float64 }

func apisixLeakyOf(found *Found) (leaky apisixLeaky, has bool, err error) {
	value := &found.Values[0]
	texts := []string{"", ""}
	switch {
	case value.Type == HashValue:
		var hasExcess, hasLast bool
		texts[0], hasExcess = value.Field("excess")
		texts[1], hasLast = value.Field("last")
		if !hasExcess || !hasLast || value.Length != 2 {
			return leaky, false, errors.New("a hash without the fields excess and last alone")
		}
	case len(found.Values) == 1:
		if value.Type == NoValue {
			return leaky, false, nil
		}
		return leaky, false, notA(value.Type, HashValue)
	default:
		for i := range found.Values {
			switch value := &found.Values[i]; value.Type {
			case NoValue: // then APISIX begins anew
				return leaky, false, nil
			case StringValue:
				texts[i] = string(value.Text)
			default:
				return leaky, false, notA(value.Type, StringValue)
			}
		}
	}
	var excessErr, lastErr error
	leaky.excess, excessErr = strconv.ParseFloat(texts[0], 64)
	leaky.last, lastErr = strconv.ParseFloat(texts[1], 64)
	// Comparisons that NaN fails.
	if excessErr != nil || lastErr != nil || !(leaky.excess >= 0 && leaky.excess < 1e15) || !(leaky.last >= 0 && leaky.last < 1e14) {
		return leaky, false, errors.New("an impossible excess or time")
	}
	return leaky, true, nil
}

func decodeApisixRequests(found *Found) (Reading, error) {
	leaky, has, err := apisixLeakyOf(found)
	if err != nil {
		return Reading{}, err
	}
	entry := admin.Entry{Limit: withAlgorithm(found.Limit, store.LeakyBucket), UsedUnknown: true}
	if has && entry.LimitKnown() {
		leaky.decide(&entry, found.Now)
	}
	first := &found.Values[0]
	entry.Defects = lifetime{needed: entry.ResetAfter, passes: true, short: "apache/apisix#12605"}.defects(&entry, found.Values)
	if first.TTL >= 0 && !entry.UsedUnknown {
		// When the key is gone, everything is allowed.
		entry.RetryAfter, entry.ResetAfter = min(entry.RetryAfter, first.TTL), min(entry.ResetAfter, first.TTL)
	}
	return Reading{Entries: []admin.Entry{entry}, Certain: has}, nil
}

// decide fills in what is in use at an instant. APISIX takes the time since the last request as
// it is, also if that is less than 0.
func (l apisixLeaky) decide(entry *admin.Entry, now store.Instant) {
	const thousandths = 1000
	perMillisecond := float64(entry.Limit.Count) * thousandths / (float64(entry.Limit.Period) / float64(time.Millisecond))
	level := max(0, l.excess+thousandths-perMillisecond*math.Abs(float64(now)/1000-l.last))
	capacity := float64(entry.Limit.Capacity()) * thousandths
	until := func(lower float64) time.Duration {
		return ceilMicroseconds(max(0, level-lower) / perMillisecond * float64(time.Millisecond))
	}
	entry.UsedUnknown = false
	entry.Used = toInt64(math.Ceil(level / thousandths))
	entry.Remaining = max(0, toInt64(math.Floor((capacity-level)/thousandths)))
	entry.Allowed = level <= capacity-thousandths
	entry.RetryAfter, entry.ResetAfter = until(capacity-thousandths), until(0)
}

func setApisixRequests(found *Found, remaining int64) ([]Write, error) {
	limit := withAlgorithm(found.Limit, store.LeakyBucket)
	switch {
	case limit.Count <= 0 || limit.Period <= 0:
		return nil, store.Invalidf("what remains can be set only if the limit is known; give it with --limit")
	case remaining < 0 || remaining >= limit.Capacity():
		// What is written is the state after a request.
		return nil, store.Invalidf("from 0 to %d units can remain, not %d; reset the key for all", limit.Capacity()-1, remaining)
	}
	excess := strconv.FormatInt((limit.Capacity()-remaining-1)*1000, 10)
	last := strconv.FormatInt(int64(found.Now)/1000, 10)
	storeKey := found.Values[0].StoreKey
	if len(found.Values) == 1 || found.Values[0].Type == HashValue {
		return []Write{{StoreKey: storeKey, Field: "excess", Text: excess}, {StoreKey: storeKey, Field: "last", Text: last}}, nil
	}
	return []Write{{StoreKey: storeKey, Text: excess}, {StoreKey: found.Values[1].StoreKey, Text: last}}, nil
}

// decodeApisixConnections reads a sorted set of the requests that are under way, by when each is
// given up in seconds.
func decodeApisixConnections(found *Found) (Reading, error) {
	value := &found.Values[0]
	if value.Type != SortedSetValue {
		return Reading{}, notA(value.Type, SortedSetValue)
	}
	now := float64(found.Now.Time().Unix())
	live, plausible := int64(0), value.TTL > 0
	for _, member := range value.Members {
		if member.Score != math.Trunc(member.Score) || !(member.Score > 0 && member.Score <= math.MaxUint32) {
			return Reading{}, errors.New("a sorted set whose scores are not times in seconds")
		}
		plausible = plausible && math.Abs(member.Score-now) < (30*day).Seconds() && isHex(strings.ReplaceAll(member.Name, "-", ""))
		if member.Score > now {
			live++
		}
	}
	entry := admin.Entry{Limit: store.Limit{Count: found.Limit.Count, Burst: found.Limit.Count}}
	entry.Used = live
	entry.UsedUnknown = live == int64(len(value.Members)) && value.Length > live
	if entry.RemainingKnown() {
		entry.Remaining = max(0, entry.Limit.Count-live)
		entry.Allowed = live < entry.Limit.Count
		entry.RetryTold = entry.Allowed // when another one ends is not known
	}
	entry.ResetTold = live == 0 && entry.UsedKnown()
	return lifetime{passes: true}.reading(found, entry, plausible)
}
