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

// spring is the RedisRateLimiter of Spring Cloud Gateway: a token bucket in two strings, the
// tokens and when they were counted, in whole seconds by the clock of Redis. Both are written by
// every request, also by a denied one.
type spring struct{}

// springTokens and springTimestamp are how the two store keys end.
const springTokens, springTimestamp = "}.tokens", "}.timestamp"

// Info implements [Layout]. The facts are from github.com/spring-cloud/spring-cloud-gateway 5227205c.
func (spring) Info() Info {
	return Info{
		Name: "spring-cloud-gateway", Writer: "Spring Cloud Gateway",
		Example: "request_rate_limiter.{users.42}.tokens", Prefixes: []string{"request_rate_limiter.{"},
		Needs: "the limit and the burst",
	}
}

// Match implements [Layout]. What is in the braces is the route and the client, or the client
// alone before 4.2. Either can hold dots, so that it is left in one piece.
func (spring) Match(storeKey string, asked bool) (store.Key, bool) {
	stem, ok := strings.CutSuffix(storeKey, springTokens)
	if !ok {
		stem, ok = strings.CutSuffix(storeKey, springTimestamp)
	}
	prefix, subject, found := strings.Cut(stem, ".{")
	ok = ok && found && subject != "" && (asked || prefix == "request_rate_limiter")
	return store.Key{Subject: subject, Name: "spring-cloud-gateway"}, ok
}

// Together implements [Layout].
func (spring) Together(storeKey string, _ store.Limit, _ store.Instant) []string {
	stem := strings.TrimSuffix(strings.TrimSuffix(storeKey, springTokens), springTimestamp)
	return []string{stem + springTokens, stem + springTimestamp}
}

// Decode implements [Layout]. A bucket without tokens or time is full, or has been empty since
// 1970, which is the same.
func (spring) Decode(found *Found) (Reading, error) {
	tokensValue, timestampValue := &found.Values[0], &found.Values[1]
	tokens, err := springNumber(tokensValue, math.Inf(1))
	if err != nil {
		return Reading{}, err
	}
	counted, err := springNumber(timestampValue, 0)
	if err != nil {
		return Reading{}, err
	}
	if tokens < 0 || counted < 0 || counted != math.Trunc(counted) || counted > math.MaxUint32 {
		return Reading{}, errors.New("impossible tokens or an impossible time")
	}
	entry := springEntry(found, tokens, int64(counted))
	certain := tokensValue.Type != NoValue && timestampValue.Type != NoValue
	return lifetime{needed: entry.ResetAfter, passes: true}.reading(found, entry, certain)
}

func springNumber(value *Value, missing float64) (float64, error) {
	switch value.Type {
	case NoValue:
		return missing, nil
	case StringValue:
		number, err := strconv.ParseFloat(string(value.Text), 64)
		if err == nil && !math.IsNaN(number) && !math.IsInf(number, 0) {
			return number, nil
		}
		return 0, errors.New("a string that is not a number")
	default:
		return 0, notA(value.Type, StringValue)
	}
}

// springEntry is the entry of a bucket that had so many tokens at a second. It is refilled at
// whole seconds only.
func springEntry(found *Found, tokens float64, counted int64) admin.Entry {
	entry := admin.Entry{Limit: withAlgorithm(found.Limit, store.TokenBucket), UsedUnknown: true}
	if !entry.LimitKnown() {
		return entry
	}
	const second = int64(time.Second / time.Microsecond)
	seconds := int64(found.Now) / second
	capacity := float64(entry.Limit.Capacity())
	rate := float64(entry.Limit.Count) / entry.Limit.Period.Seconds()
	tokens = min(capacity, tokens+float64(max(0, seconds-counted))*rate)
	until := func(wanted float64) time.Duration {
		if tokens >= wanted {
			return 0
		}
		from := time.Duration(max(seconds, counted)*second-int64(found.Now)) * time.Microsecond
		return plus(from, repeated(toInt64(math.Ceil((wanted-tokens)/rate)), time.Second))
	}
	left := int64(math.Floor(tokens))
	entry.UsedUnknown = false
	entry.Remaining, entry.Used = left, entry.Limit.Capacity()-left
	entry.Allowed = tokens >= 1
	entry.RetryAfter, entry.ResetAfter = until(1), until(capacity)
	return entry
}
