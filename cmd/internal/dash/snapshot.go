package dash

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// Snapshot is what one look at the store brought: the data of one frame.
type Snapshot struct {
	Time  time.Time `json:"time"`
	Store string    `json:"store"`
	// Layouts names the layouts of other limiters by which the keys were read; empty for
	// limitctl's own keys.
	Layouts  string    `json:"layouts,omitempty"`
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
	asked []ID
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
	// Unsure is how many keys may be of another limiter, and are left out.
	Unsure int64 `json:"unsure,omitempty"`
	// UnsureNoTTL is how many of these never expire, and may deny for ever.
	UnsureNoTTL int64 `json:"unsure_no_ttl,omitempty"`
	// Full: there are more keys than are followed.
	Full bool `json:"full"`
}

// Reading is the state of one key.
type Reading struct {
	admin.Entry
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
