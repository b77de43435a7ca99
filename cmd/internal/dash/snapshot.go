package dash

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// Snapshot is what one look at the store brought: the data of one frame.
type Snapshot struct {
	Time     time.Time `json:"time"`
	Store    string    `json:"store"`
	Servers  []Server  `json:"servers,omitempty"`
	Coverage Coverage  `json:"coverage"`
	Keys     []Reading `json:"keys"`
	// Problem is why the look failed. Then Keys are those that were had before it.
	Problem string `json:"problem,omitempty"`
	// detail is of the key that is looked at by itself.
	detail *detail
	// asked are the keys that were looked for; those that are not among Keys are
	// unused.
	asked []limiter.Key
}

// Server is what one master says of itself.
type Server struct {
	Name         string        `json:"name,omitempty"` // empty if it is the only one
	Version      string        `json:"version,omitempty"`
	Role         string        `json:"role,omitempty"`
	OpsPerSecond int64         `json:"ops_per_second"`
	UsedMemory   int64         `json:"used_memory"`
	MaxMemory    int64         `json:"max_memory,omitempty"`
	RoundTrip    time.Duration `json:"round_trip_ns"`
	// Problem is why it told nothing.
	Problem string `json:"problem,omitempty"`
}

// Coverage is how much of the selected keys is followed.
type Coverage struct {
	// Looked and Total are how far a scan has come, in keys of the store.
	Looked int64 `json:"looked"`
	Total  int64 `json:"total"`
	// Passes is how often all keys were looked at, and Took how long that takes.
	Passes int           `json:"passes"`
	Took   time.Duration `json:"took_ns"`
	// Matched and AtLimit are what the last whole scan came to, those followed
	// among them.
	Matched int64 `json:"matched"`
	AtLimit int64 `json:"at_limit"`
	// Full: there are more keys than are followed.
	Full bool `json:"full"`
}

// Reading is the state of one key.
type Reading struct {
	Key        limiter.Key
	StoreKey   string
	Limit      limiter.Limit
	Used       int64
	Remaining  int64
	RetryAfter time.Duration
	ResetAfter time.Duration
	TTL        time.Duration // negative: it never expires
	// Taken is the units charged since the reading before.
	Taken int64
}

// newReading is what a scan found.
func newReading(e *limiter.Entry) Reading {
	return Reading{Key: e.Key, StoreKey: e.StoreKey, Limit: e.Limit, Used: e.Decision.Used, Remaining: e.Decision.Remaining,
		RetryAfter: e.Decision.RetryAfter, ResetAfter: e.Decision.ResetAfter, TTL: e.TTL}
}

// share is how much of the limit is used: 1 is all.
func (r *Reading) share() float64 {
	if r.Limit.Count == 0 { // it was never found
		return 0
	}
	return float64(r.Used) / float64(r.Limit.Capacity())
}

// atLimit reports whether a request of one unit is denied now.
func (r *Reading) atLimit() bool { return r.Remaining == 0 }

// readingDocument is a Reading as JSON, with the names that inspect has.
type readingDocument struct {
	Key          string `json:"key"`
	Name         string `json:"name"`
	StoreKey     string `json:"store_key"`
	Limit        string `json:"limit"`
	Used         int64  `json:"used"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	TTLMS        int64  `json:"ttl_ms"` // -1: it never expires
	Taken        int64  `json:"taken"`
}

// MarshalJSON implements json.Marshaler.
func (r Reading) MarshalJSON() ([]byte, error) {
	ttl := output.Milliseconds(r.TTL)
	if r.TTL < 0 {
		ttl = -1
	}
	return json.Marshal(readingDocument{r.Key.Subject, r.Key.Name, r.StoreKey, r.Limit.String(), r.Used, r.Remaining,
		output.Milliseconds(r.RetryAfter), output.Milliseconds(r.ResetAfter), ttl, r.Taken})
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Reading) UnmarshalJSON(text []byte) error {
	var d readingDocument
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	limit, err := limiter.ParseLimit(d.Limit)
	if err != nil {
		return err
	}
	for _, n := range []int64{d.Used, d.Remaining, d.Taken, d.RetryAfterMS, d.ResetAfterMS, d.TTLMS + 1} {
		if n < 0 || n > mostOfAnything {
			return fmt.Errorf("the key %q has a count or a time out of range", output.Shorten(d.Key, 100))
		}
	}
	*r = Reading{Key: limiter.Key{Subject: d.Key, Name: d.Name}, StoreKey: d.StoreKey, Limit: limit, Used: d.Used, Remaining: d.Remaining,
		RetryAfter: milliseconds(d.RetryAfterMS), ResetAfter: milliseconds(d.ResetAfterMS), TTL: milliseconds(d.TTLMS), Taken: d.Taken}
	return r.Key.Validate()
}

// mostOfAnything is more than any count or time, in milliseconds, of a limit, and so
// little that nothing overflows that is reckoned with it.
const mostOfAnything = 4_000_000_000_000

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
