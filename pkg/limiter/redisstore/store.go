// Package redisstore keeps limits in Redis (or Valkey, which speaks the same protocol) and decides them there, in one
// atomic script call by the server's clock; in a Cluster in one for each slot.
//
// It works with Redis 5 and later, on a single server or a Cluster, and needs no
// right to load scripts. What a user of it must be allowed is in docs/operations.md.
package redisstore

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/keyspace"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Store is a [store.Store] and an [admin.Keyspace] in Redis.
type Store struct {
	settings
	admin.Tables
	lanes      *lanes.Sender
	keys       *keyspace.Own
	closing    sync.Once
	closeErr   error
	givingBack sync.RWMutex // held for reading while a call gives back what it took
}

// settings are what options change.
type settings struct {
	sending lanes.Settings
	secrets []string
	err     error // what is wrong with an option
}

// An Option changes how a Store is made.
type Option func(*settings)

// WithPrefix makes store keys begin with prefix instead of [store.DefaultPrefix].
func WithPrefix(prefix string) Option {
	return func(s *settings) { s.sending.Own = admin.OwnLayout(prefix) }
}

// WithClock decides by clock instead of the server's time, for tests and simulations in virtual time. Keys then expire
// an hour late, so that only clock decides what has lapsed.
func WithClock(clock func() time.Time) Option {
	return func(s *settings) {
		if s.sending.Clock = clock; clock == nil {
			s.err = store.Invalidf("the clock of the Redis store is nil")
		}
	}
}

// WithSecrets names texts that no error may hold, besides the password that the client
// logs in with, which the store knows: a server can repeat what it was ever sent.
func WithSecrets(secrets ...string) Option {
	return func(s *settings) { s.secrets = append(s.secrets, secrets...) }
}

// WithBudget bounds how long the store may take over one call. After that it is away, a [store.ErrUnavailable] or
// [store.ErrOutcomeUnknown], whatever time the caller still has; a caller's own deadline is a [store.ErrGaveUp]
// instead. The default is [DefaultTimeout] for a store of [New], and for others the client's read time-out, or 3 s
// where that has none. The client's own time-outs still count.
func WithBudget(budget time.Duration) Option {
	return func(s *settings) {
		if s.sending.Budget = budget; budget < time.Millisecond && budget != 0 {
			s.err = store.Invalidf("the budget %s is too short; it is at least 1ms, or 0 for its default", budget)
		}
	}
}

// WithBatchObserver calls f with the number of calls in each exchange with a server, 1 for a call that is sent alone. A
// mean well above 1 says that callers wait for each other. Many goroutines call f at once, so it must be quick.
func WithBatchObserver(f func(calls int)) Option {
	return func(s *settings) {
		if f == nil {
			s.err = store.Invalidf("the function of WithBatchObserver is nil")
		}
		s.sending.OnBatch = f
	}
}

// Decide implements [store.Store]: one script call, all at one instant. In a Cluster that holds for requests that share
// a slot, as those of one subject do; others are decided slot by slot, in the order given, and what was taken is given
// back once a later slot denies. Until then others can see it taken.
func (s *Store) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if err := s.lanes.Check(); err != nil {
		return err
	}
	w := s.lanes.NewWork()
	var err error
	if w.Reqs, err = store.NormalizeAll(w.Reqs[:0], op, reqs); err != nil {
		return err
	}
	if err := store.CheckStored(w.Reqs); err != nil {
		return err
	}
	if s.lanes.IsCluster() && len(reqs) > 1 {
		if groups := groupBySlot(w.Reqs); len(groups) > 1 {
			if op == store.TakeUpTo {
				return store.Invalidf(
					"a take of what fits needs subjects of one slot, not %q and %q; take from each by itself",
					reqs[groups[0][0]].Key.Subject, reqs[groups[1][0]].Key.Subject)
			}
			return s.decideAcrossSlots(ctx, op, groups, w.Reqs, decisions)
		}
	}
	return s.lanes.Decide(ctx, op, w, decisions)
}

// Shard implements [store.Sharded]: in a Cluster the shards are its masters, named by their
// addresses. It asks nobody and goes by what the client knows of the Cluster.
func (s *Store) Shard(key store.Key) string { return s.lanes.ShardOf(key.Subject) }

// Prefix returns what store keys begin with; see [WithPrefix].
func (s *Store) Prefix() string { return string(s.lanes.Own) }

// DefaultTimeout is how long a client of [Open] waits for a server, for each of dialing, writing and reading, unless
// its options say so. It is also the budget of a call on the client of an application; see [WithBudget].
const DefaultTimeout = 250 * time.Millisecond

// timeoutOf returns how long client waits to read, and 3 s if that is for ever.
func timeoutOf(client redis.UniversalClient) (read time.Duration) {
	switch c := client.(type) {
	case *redis.Client:
		read = c.Options().ReadTimeout
	case *redis.ClusterClient:
		read = c.Options().ReadTimeout
	}
	if read <= 0 {
		return 3 * time.Second
	}
	return read
}

// Open returns a Store on a client of its own, bounded as [Own] does; Close closes it. Options with a MasterName are of
// the master that Sentinels at Addrs name, those with several Addrs or IsClusterMode of a Cluster, and others of one
// server. Replicas are never asked.
//
// The client fits a limiter: a context's deadline is kept, a dead server is dialled once, nothing is sent twice, and
// time-outs that options leave out are [DefaultTimeout]. In a Cluster a whole call takes no longer than ReadTimeout.
// All Sentinels are asked at once for each new connection, for at most half of DialTimeout.
func Open(options redis.UniversalOptions, settings ...Option) (*Store, error) {
	var client redis.UniversalClient
	switch {
	case options.MasterName != "":
		client = redisserver.NewFailoverClient(*options.Failover(), DefaultTimeout)
	case len(options.Addrs) > 1 || options.IsClusterMode:
		client = redisserver.NewClusterClient(*options.Cluster(), DefaultTimeout)
	default:
		client = redisserver.NewClient(*options.Simple(), DefaultTimeout)
	}
	s, err := Own(client, settings...)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return s, nil
}

// New returns a Store on client, which stays the caller's: it is left as it is, and Close does not close it. Whatever
// retries client is configured for, takes and refunds are never sent twice. A call takes at most [DefaultTimeout]
// unless [WithBudget] changes that. Hooks that client gets after New do not see the calls.
//
// New does not bound the size of answers; [Own] does. If a call of a ClusterClient fails before it reaches a node, New
// may not know that, and returns a [store.ErrOutcomeUnknown] instead of a [store.ErrUnavailable]. Errors never contain
// the password of the client's options, and that of a provider only if a server repeats it.
//
// New fails with a [store.ErrInvalid] on a nil client, one that is neither a [redis.Client] nor a
// [redis.ClusterClient], or a wrong option. It does not connect yet. A proxy that spreads keys over several servers is
// not to be used.
func New(client redis.UniversalClient, options ...Option) (*Store, error) {
	return newStore(client, false, options)
}

// Own is [New] for a client that is the Store's from now on: Close closes it. If Own fails it stays the caller's.
//
// It bounds what broken or hostile servers can cost: an answer that is not Redis' protocol, or that announces more than
// 22 MB for all that was asked in one go, ends its connection, and a panic of the client becomes the error of what was
// asked. Nothing should have been asked of client before: connections and nodes that it knows already are not bounded.
//
// In a Cluster calls go through the clients of its nodes. A hook of the caller's own belongs there, before Own:
//
//	client.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
func Own(client redis.UniversalClient, options ...Option) (*Store, error) {
	return newStore(client, true, options)
}

// newStore is [Own], or else [New].
func newStore(client redis.UniversalClient, owned bool, options []Option) (*Store, error) {
	if sys.IsNil(client) {
		return nil, store.Invalidf("the Redis store needs a client, and it is nil")
	}
	switch client.(type) {
	case *redis.Client, *redis.ClusterClient:
	default:
		return nil, store.Invalidf("the Redis store needs a *redis.Client or a *redis.ClusterClient, and not a %T",
			client)
	}
	s := &Store{settings: settings{sending: lanes.Settings{Own: store.DefaultPrefix, Owned: owned}}}
	for i, option := range options {
		if option == nil {
			return nil, store.Invalidf("option %d of %d of the Redis store is nil", i+1, len(options))
		}
		option(&s.settings)
	}
	if err := cmp.Or(s.err, store.ValidatePrefix(string(s.sending.Own))); err != nil {
		return nil, err
	}
	if s.sending.Budget == 0 {
		s.sending.Budget = DefaultTimeout
		if owned {
			s.sending.Budget = timeoutOf(client)
		}
	}
	servers := redisserver.New(client, string(s.sending.Own), s.secrets...)
	if owned {
		servers.Guard()
		lanes.WatchNodes(client)
	}
	s.lanes = lanes.NewSender(client, servers, s.sending) // after the hooks, which it uses
	s.keys = keyspace.New(s.lanes)
	s.SideTable = side{s}
	return s, nil
}

// Close makes all calls from now on a [store.ErrClosed]. It waits for what is being given back of takes over several
// slots whose callers have left, about 5 s at most, and then closes the client if the Store owns it. What is on its way
// at that moment may end as a [store.ErrOutcomeUnknown]. Closing again returns the same.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.lanes.Close()
		s.lanes.Servers.Close()
		s.givingBack.Lock()
		defer s.givingBack.Unlock()
		if s.lanes.Owned {
			s.closeErr = s.lanes.Client.Close()
		}
	})
	return s.closeErr
}
