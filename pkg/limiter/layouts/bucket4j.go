package layouts

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// bucket4j is the Java library of this name, with any of its clients of Redis. A binary string
// holds the whole configuration and the state of a bucket, which has one or more bandwidths,
// each of them a limit. The clock is the client's, in ms.
type bucket4j struct{ single }

// Info implements [Layout]. The facts are from github.com/bucket4j/bucket4j 731354a7.
func (bucket4j) Info() Info {
	return Info{
		Name: "bucket4j", Writer: "bucket4j 7 and later", Example: "user-42", Needs: "nothing",
		Beyond: "A proxy with an optimization (delaying, predicting, skipping at zero) keeps tokens of its own, " +
			"and can deny until it asks Redis again.",
	}
}

// Match implements [Layout]. The key is whatever the application makes of its own.
func (bucket4j) Match(storeKey string, _ bool) (store.Key, bool) {
	return store.Key{Subject: storeKey, Name: "bucket4j"}, storeKey != ""
}

// Decode implements [Layout]. The limits are in the value, so a limit that an operator gives does
// not count.
func (bucket4j) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	state, err := bucket4jOf(found)
	if err != nil {
		return Reading{}, err
	}
	now := bucket4jNow(found)
	reading := Reading{Certain: true}
	names := state.names()
	for i := range state.bandwidths {
		b := &state.bandwidths[i]
		b.refillTo(now)
		entry := admin.Entry{Key: store.Key{Subject: found.Key.Subject, Name: names[i]}, Limit: b.limit()}
		entry.Remaining = max(0, b.tokens)
		entry.Used = b.used()
		entry.ResetAfter = b.wait(b.capacity, now)
		entry.RetryAfter = b.wait(1, now)
		entry.Allowed = b.tokens >= 1
		if value.TTL >= 0 { // applications may keep buckets for ever
			entry.Defects = lifetime{needed: entry.ResetAfter, passes: true}.defects(&entry, found.Values)
		}
		reading.Entries = append(reading.Entries, entry)
	}
	return reading, nil
}

func bucket4jOf(found *Found) (*bucket4jState, error) {
	switch value := &found.Values[0]; {
	case value.Type != StringValue:
		return nil, notA(value.Type, StringValue)
	case value.Length != int64(len(value.Text)):
		return nil, errors.New("a longer string than a bucket is")
	default:
		return parseBucket4j(value.Text)
	}
}

// bucket4jNow is the instant of what was found in ns since 1970, as the library's clock has it.
func bucket4jNow(found *Found) int64 {
	return int64(found.Now) / 1000 * int64(time.Millisecond)
}

// limit returns the limit that a bandwidth is.
func (b *bucket4jBandwidth) limit() store.Limit {
	return store.Limit{Algorithm: store.TokenBucket, Count: b.refill, Period: time.Duration(b.period), Burst: b.capacity}
}

// used returns the tokens that are missing.
func (b *bucket4jBandwidth) used() int64 {
	switch used := b.capacity - b.tokens; {
	case b.tokens >= b.capacity:
		return 0
	case used < 0:
		return math.MaxInt64
	default:
		return used
	}
}

// names returns the names of the bandwidths: their ids, or their limits if they have none. If
// two are the same, the later one gets its position behind.
func (s *bucket4jState) names() []string {
	names, seen := make([]string, len(s.bandwidths)), map[string]bool{}
	for i := range s.bandwidths {
		b := &s.bandwidths[i]
		what := b.id
		if what == "" {
			_, what, _ = strings.Cut(b.limit().String(), ":")
		}
		names[i] = "bucket4j/" + what
		if seen[names[i]] {
			names[i] = fmt.Sprintf("%s#%d", names[i], i+1)
		}
		seen[names[i]] = true
	}
	return names
}
