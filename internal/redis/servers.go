// Package redisserver is what limitctl knows about Redis servers apart from deciding limits: their URLs, bounds of
// their answers, which masters there are, how to scan their keys at a bounded pace, how the slots of a Cluster move,
// what INFO says, which rights a user needs, and what an error means.
//
// Of limits it knows only their errors and the prefix of their keys.
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
	cluster *redis.ClusterClient // nil for a single server
	address string               // for messages, without secrets
	prefix  string
	secrets *redact.Secrets // for errors
	closed  atomic.Bool     // see Close
}

// New returns the servers behind client, and does not connect to them. Errors name prefix, which may be empty, and
// contain neither the password of client nor secrets.
func New(client redis.UniversalClient, prefix string, secrets ...string) *Servers {
	s := &Servers{client: client, prefix: prefix, secrets: redact.New(passwordOf(client))}
	s.cluster, _ = client.(*redis.ClusterClient)
	s.secrets.Add(secrets...)
	s.address = s.secrets.Text(addressOf(client)) // a Cluster can give its nodes any names
	return s
}

// Close notes that the client may be closed: a failed call is now a [store.ErrClosed], unless it may have changed
// something.
func (s *Servers) Close() { s.closed.Store(true) }

// isClosed reports whether err is a consequence of Close, or of a client that its owner has closed. In a Cluster
// the client itself closes the clients of nodes that leave.
func (s *Servers) isClosed(err error) bool {
	_, single := s.client.(*redis.Client)
	return s.closed.Load() || single && errors.Is(err, redis.ErrClosed)
}

// IsCluster reports whether it is a Cluster.
func (s *Servers) IsCluster() bool { return s.cluster != nil }

// addressOf returns the address of client for messages.
func addressOf(client redis.UniversalClient) string {
	switch c := client.(type) {
	case *redis.Client:
		if c.Options().Addr == "FailoverClient" { // go-redis' own with Sentinels
			return "the Sentinels' master"
		}
		return c.Options().Addr
	case *redis.ClusterClient:
		return strings.Join(c.Options().Addrs, ",")
	}
	return "its address"
}

// passwordOf returns the password in the options of client.
func passwordOf(client redis.UniversalClient) string {
	switch c := client.(type) {
	case *redis.Client:
		return c.Options().Password
	case *redis.ClusterClient:
		return c.Options().Password
	case *redis.Ring:
		return c.Options().Password
	}
	return ""
}

// Redact returns a text of the server, such as a field of INFO, without known secrets and with a readable length.
func (s *Servers) Redact(text string) string { return s.secrets.Answer(text) }

// ServerOf returns the server that has a key.
func (s *Servers) ServerOf(ctx context.Context, storeKey string) (redis.Cmdable, error) {
	if s.cluster != nil {
		return s.cluster.MasterForKey(ctx, storeKey)
	}
	return s.client, nil
}

// mostMasters is the most masters of a Cluster that are called, which is the most that Redis recommends.
const mostMasters = 1000

// EachMaster calls do concurrently with every master, or with the one server without a Cluster. It returns the
// first error of do, and calls do for the others in any case. A Cluster that names no masters or too many is an
// error.
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
		defer panics.Catch(&err) // the goroutine belongs to the client
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

// Nodes returns the addresses of all nodes of a Cluster that the client knows, including replicas, and nothing for
// a single server.
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
