package foreign

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// redisRate is github.com/go-redis/redis_rate from v8 on: a bucket in the form of GCRA. A
// string holds the theoretical arrival time, in seconds since the beginning of 2017.
type redisRate struct{}

// redisRateEpoch is 2017-01-01T00:00:00Z, in seconds since 1970.
const redisRateEpoch = 1_483_228_800

// Info implements [Layout].
func (redisRate) Info() Info {
	return Info{
		Name: "redis_rate", Called: "a redis_rate bucket", Writer: "go-redis/redis_rate v8 to v10", Example: "rate:project:123", Type: "string",
		Prefixes: []string{"rate:"}, Needs: "the limit", Source: "github.com/go-redis/redis_rate 8eadf45e",
	}
}

// Match implements [Layout]. The prefix cannot be changed.
func (redisRate) Match(storeKey string, _ bool) (limiter.Key, bool) {
	subject, ok := strings.CutPrefix(storeKey, "rate:")
	return limiter.Key{Subject: subject, Name: "redis_rate"}, ok && subject != ""
}

// Together implements [Layout].
func (redisRate) Together(storeKey string, _ limiter.Limit, _ limiter.Instant) []string {
	return []string{storeKey}
}

// Decode implements [Layout].
func (redisRate) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	switch {
	case value.Type == NoValue:
		return Reading{}, nil
	case value.Type != StringValue:
		return Reading{}, notA(value.Type, StringValue)
	}
	seconds, err := strconv.ParseFloat(string(value.Text), 64)
	if err != nil || math.IsNaN(seconds) || seconds < 0 || seconds > math.MaxInt32 {
		return Reading{}, errors.New("not a time in seconds since 2017")
	}
	nanoseconds := int64(math.Round(seconds*1e6)) * 1000
	arrival := redisRateEpoch*int64(time.Second) + nanoseconds
	entry := arrivalEntry(arrival, found)
	// The key is kept until the arrival time, rounded up to seconds.
	return Reading{Entries: []limiter.Entry{entry}, Certain: agrees(entry.ResetAfter, value.TTL, time.Second)}, nil
}
