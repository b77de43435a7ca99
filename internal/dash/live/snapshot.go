package live

import (
	"context"
	"errors"
	"time"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Server is what one master says of itself.
type Server struct {
	Name       string // empty if it is the only one
	Version    string
	Role       string
	UsedMemory int64
	MaxMemory  int64
	// Refuses: its memory is full, and it evicts nothing.
	Refuses   bool
	RoundTrip time.Duration
	// Problem is why it told nothing.
	Problem string
}

// AskServers asks all masters. message writes why one tells nothing. An error is why none can be asked.
func AskServers(ctx context.Context, servers *redisserver.Servers,
	message func(error) string) (all []Server, err error) {
	var problems []error
	answers := false
	for _, a := range servers.Ask(ctx) {
		s := Server{Name: a.Address, RoundTrip: a.RoundTrip}
		if a.Err != nil {
			problems, s.Problem = append(problems, a.Err), message(a.Err)
		} else {
			version := a.Info.Version()
			s.Version, s.Role = version.Product+" "+version.Text, a.Info["role"]
			s.UsedMemory, s.MaxMemory = a.Info.Int("used_memory"), a.Info.Int("maxmemory")
			s.Refuses = s.MaxMemory > 0 && s.UsedMemory >= s.MaxMemory && a.Info["maxmemory_policy"] == "noeviction"
		}
		answers = answers || !store.IsAway(a.Err) && !errors.Is(a.Err, store.ErrRefused)
		all = append(all, s)
	}
	if answers {
		return all, nil
	}
	return all, errors.Join(problems...)
}

// Coverage is how much of the selected keys is followed.
type Coverage struct {
	// Looked and Total are how far a scan has come, in keys of the store.
	Looked int64
	Total  int64
	// Passes is how often all keys were looked at, and Took how long that takes.
	Passes int
	Took   time.Duration
	// Matched and AtLimit are what the last whole scan came to, those followed among them.
	Matched int64
	AtLimit int64
	// Full: there are more keys than are followed.
	Full bool
}

// Reading is the state of one key.
type Reading struct {
	admin.Entry
	// Taken is the units charged since the reading before.
	Taken int64
}

// IsUsed reports whether anything of the limit is used.
func (r *Reading) IsUsed() bool { return r.Used > 0 }

// UsedShare is how much of the limit is used: 1 is all. It is 0 if that is not known.
func (r *Reading) UsedShare() float64 {
	share, _ := r.Share()
	return share
}
