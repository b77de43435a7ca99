// Package redisserver is what limitctl knows about Redis servers apart from deciding limits:
// which masters there are, how to go through their keys a page at a time and at a
// bounded pace, how the slots of a Cluster move, what INFO says, which rights a user needs,
// and what an error means.
//
// The store, the doctor and the cost meter call it. It knows nothing of limits but their
// errors and the prefix of their keys.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redact"
)

// Servers is the server or the Cluster behind a client.
type Servers struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient   // nil for a single server
	address string                 // for messages, without secrets
	master  atomic.Pointer[string] // of a client that asks Sentinels, where it last connected to
	prefix  string
	secrets *redact.Secrets // what no error may hold
	closed  atomic.Bool     // see Close
}

// New returns the servers behind client, and does not connect to them. Errors name prefix
// as that of the keys that are asked for; it may be empty. They hold neither the password
// of client nor any of secrets, each a text.
func New(client redis.UniversalClient, prefix string, secrets ...string) *Servers {
	s := &Servers{client: client, prefix: prefix, secrets: redact.New(passwordOf(client))}
	s.cluster, _ = client.(*redis.ClusterClient)
	s.secrets.Add(secrets...)
	s.address = s.secrets.Text(addressOf(client)) // a Cluster names its nodes as it likes
	return s
}

// Close says that nobody asks any more, and that the client may be closed: that a call fails now is
// a [store.ErrClosed], unless it may have changed something.
func (s *Servers) Close() { s.closed.Store(true) }

// isClosed reports whether err comes of that, or of a client that its owner has closed. In a Cluster
// the client itself closes the clients of nodes that leave.
func (s *Servers) isClosed(err error) bool {
	_, single := s.client.(*redis.Client)
	return s.closed.Load() || single && errors.Is(err, redis.ErrClosed)
}

// IsCluster reports whether it is a Cluster.
func (s *Servers) IsCluster() bool { return s.cluster != nil }

// addressOf names the server or servers of client in messages.
func addressOf(client redis.UniversalClient) string {
	switch c := client.(type) {
	case *redis.Client:
		return c.Options().Addr
	case *redis.ClusterClient:
		return strings.Join(c.Options().Addrs, ",")
	}
	return "its address"
}

// ServerOf returns the server that has a key.
func (s *Servers) ServerOf(ctx context.Context, storeKey string) (redis.Cmdable, error) {
	if s.cluster != nil {
		return s.cluster.MasterForKey(ctx, storeKey)
	}
	return s.client, nil
}

// mostMasters is how many masters of a Cluster are asked: the most that Redis recommends.
const mostMasters = 1000

// EachMaster calls do with every master, all at once: with the one server if there is no
// Cluster. It returns the first error of do, which is called for the others all the same.
// A Cluster that names no masters or too many is an error.
func (s *Servers) EachMaster(ctx context.Context, do func(ctx context.Context, master *redis.Client) error) error {
	if s.cluster == nil {
		single, is := s.client.(*redis.Client)
		if !is {
			return errors.New("a client of a kind that is not known")
		}
		return do(ctx, single)
	}
	var named atomic.Int64
	failed := s.cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) (err error) {
		defer panics.Catch(&err) // it is the client's goroutine
		if named.Add(1) > mostMasters {
			return nil
		}
		return do(ctx, master)
	})
	switch n := named.Load(); {
	case n > mostMasters:
		return &answerError{fmt.Sprintf("it names %d masters of the Cluster, and one has at most %d", n, mostMasters)}
	case n == 0 && failed == nil:
		return &answerError{"it names no masters of the Cluster"}
	case n == 0:
		return &DiscoveryError{failed}
	}
	return failed
}

// Masters returns every master in the order of their addresses.
func (s *Servers) Masters(ctx context.Context) ([]*redis.Client, error) {
	var mu sync.Mutex
	var masters []*redis.Client
	err := s.EachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, master)
		return nil
	})
	slices.SortFunc(masters, byAddress)
	return masters, err
}

// Nodes returns the addresses of all nodes of a Cluster that the client knows, replicas
// among them, and nothing for a single server.
func (s *Servers) Nodes(ctx context.Context) (addresses []string) {
	if s.cluster == nil {
		return nil
	}
	var mu sync.Mutex
	s.cluster.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		addresses = append(addresses, node.Options().Addr)
		return nil
	})
	return addresses
}

func byAddress(a, b *redis.Client) int { return strings.Compare(a.Options().Addr, b.Options().Addr) }
