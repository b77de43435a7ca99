package redisserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Asked is what a master says of itself.
type Asked struct {
	Address string // empty for the only one
	Info    Info   // nil after an error
	// RoundTrip is the time of a ping.
	RoundTrip time.Duration
	// Err says why it does not answer, or does not tell; nil if it does.
	Err error
}

// Ask asks all masters at once, and returns them by their addresses.
func (s *Servers) Ask(ctx context.Context) []Asked {
	var mu sync.Mutex
	var all []Asked
	err := s.EachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		a := ask(ctx, master)
		if s.IsCluster() {
			a.Address = s.Redact(master.Options().Addr)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, a)
		return nil
	})
	if err != nil {
		return []Asked{{Err: s.Explain(err)}}
	}
	slices.SortFunc(all, func(a, b Asked) int { return strings.Compare(a.Address, b.Address) })
	return all
}

func ask(ctx context.Context, master *redis.Client) (a Asked) {
	server := New(master, "")
	begun := time.Now()
	err := master.Ping(ctx).Err()
	a.RoundTrip = time.Since(begun)
	if err != nil && !LacksRight(err) { // a refusal takes as long
		a.Err = server.Explain(err)
		return a
	}
	info, err := server.Info(master.Info(ctx))
	switch {
	case LacksRight(err):
		a.Err = errors.New("no right to INFO")
	case err != nil:
		a.Err = server.Explain(err)
	default:
		a.Info = info
	}
	return a
}

// NodeOf returns a function that names the master of a key with a hash tag; nil without a Cluster. The name is empty
// while no master is known.
func (s *Servers) NodeOf() func(ctx context.Context, tag string) string {
	if !s.IsCluster() {
		return nil
	}
	return func(ctx context.Context, tag string) string {
		server, err := s.ServerOf(ctx, "{"+tag+"}")
		if master, is := server.(*redis.Client); err == nil && is {
			return s.Redact(master.Options().Addr)
		}
		return ""
	}
}
