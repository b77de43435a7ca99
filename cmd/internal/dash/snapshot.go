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
	// Denials is who was being denied; nil if that is not known.
	Denials *DenialFrame `json:"denials,omitempty"`
	// Problem is why the look failed. Then Keys are those that were had before it.
	Problem string `json:"problem,omitempty"`
	// Away are nodes that did not answer, while others did.
	Away []Away `json:"away,omitempty"`
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
	limiter.Entry
	// Taken is the units charged since the reading before.
	Taken int64
}

// isUsed reports whether anything of the limit is used, as far as that is known.
func (r *Reading) isUsed() bool { return r.Used > 0 || r.UsedUnknown }

// share is how much of the limit is used: 1 is all. It is 0 if that is not known.
func (r *Reading) share() float64 {
	share, _ := r.Share()
	return share
}

// atLimit reports whether a request of one unit is denied now, as far as is known.
func (r *Reading) atLimit() bool { return r.AtLimit() }

// readingDocument is a Reading as JSON, with the names that inspect has.
type readingDocument struct {
	Key          string `json:"key"`
	Name         string `json:"name"`
	StoreKey     string `json:"store_key"`
	Limit        string `json:"limit"` // empty if not all of it is known
	Used         *int64 `json:"used"`  // as the following, null if it is not known
	Remaining    *int64 `json:"remaining"`
	RetryAfterMS *int64 `json:"retry_after_ms"`
	ResetAfterMS *int64 `json:"reset_after_ms"`
	TTLMS        int64  `json:"ttl_ms"` // -1: it never expires
	Taken        int64  `json:"taken"`
}

// MarshalJSON implements json.Marshaler.
func (r Reading) MarshalJSON() ([]byte, error) {
	ttl := output.Milliseconds(r.TTL)
	if r.TTL < 0 {
		ttl = -1
	}
	limit := ""
	if r.LimitKnown() {
		limit = r.Limit.String()
	}
	ifKnown := func(known bool, n int64) *int64 {
		if !known {
			return nil
		}
		return &n
	}
	return json.Marshal(readingDocument{r.Key.Subject, r.Key.Name, r.StoreKey, limit, ifKnown(r.UsedKnown(), r.Used),
		ifKnown(r.RemainingKnown(), r.Remaining), ifKnown(r.RetryKnown(), output.Milliseconds(r.RetryAfter)),
		ifKnown(r.ResetKnown(), output.Milliseconds(r.ResetAfter)), ttl, r.Taken})
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Reading) UnmarshalJSON(text []byte) error {
	var d readingDocument
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	var limit limiter.Limit
	if d.Limit != "" {
		var err error
		if limit, err = limiter.ParseLimit(d.Limit); err != nil {
			return err
		}
	}
	orZero := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	used, remaining, retryAfter, resetAfter := orZero(d.Used), orZero(d.Remaining), orZero(d.RetryAfterMS), orZero(d.ResetAfterMS)
	for _, n := range []int64{used, remaining, d.Taken, retryAfter, resetAfter, d.TTLMS + 1} {
		if n < 0 || n > mostOfAnything {
			return fmt.Errorf("the key %q has a count or a time out of range", output.Shorten(d.Key, 100))
		}
	}
	*r = Reading{Taken: d.Taken, Entry: limiter.Entry{
		Key: limiter.Key{Subject: d.Key, Name: d.Name}, StoreKey: d.StoreKey, Limit: limit,
		TTL: milliseconds(d.TTLMS), UsedUnknown: d.Used == nil,
		Decision: limiter.Decision{
			Used: used, Remaining: remaining, RetryAfter: milliseconds(retryAfter), ResetAfter: milliseconds(resetAfter),
		},
	}}
	return r.Key.Validate()
}

// mostOfAnything is more than any count or time, in milliseconds, of a limit, and
// small enough that nothing computed with it overflows.
const mostOfAnything = 4_000_000_000_000

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
