package redisstore

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// defaultBudget is as long as go-redis waits for an answer unless told otherwise.
const defaultBudget = 3 * time.Second

// timeoutsOf returns how long client waits to read and to write, 0 or less for ever.
func timeoutsOf(client redis.UniversalClient) (read, write time.Duration) {
	switch c := client.(type) {
	case *redis.Client:
		return c.Options().ReadTimeout, c.Options().WriteTimeout
	case *redis.ClusterClient:
		return c.Options().ReadTimeout, c.Options().WriteTimeout
	case *redis.Ring:
		return c.Options().ReadTimeout, c.Options().WriteTimeout
	}
	return 0, 0
}

// longer reports whether a client's time-out exceeds budget. One that is not above 0 is
// none at all.
func longer(timeout, budget time.Duration) bool { return timeout <= 0 || timeout > budget }

// Open returns a Store on a client of its own, as [NewClient] makes it of options and [Own]
// bounds it. Close closes it.
func Open(options redis.Options, settings ...Option) (*Store, error) {
	client := NewClient(options)
	s, err := Own(client, settings...)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return s, nil
}

// New returns a Store on client, which stays the caller's: it is left as it is, and Close does
// not close it. So a service can have its limits on the client that it uses for all else.
// Whatever retries client is configured for, takes and refunds are never sent twice.
//
// What its servers answer costs what client lets it cost: see [Own] for a client that is there
// for the limits alone. Of a ClusterClient's call that never reached a node it may not be
// known, which then is a [store.ErrOutcomeUnknown] and not a [store.ErrUnavailable]. Errors
// hold the password of client's options never, and one of a provider only if a server repeats it.
//
// On a [redis.Ring], or a client of the caller's own, decisions of several callers share
// pipelines and not script calls, because nobody knows which keys are on one server. The
// Keyspace is that of one server, so a Ring has none. A proxy that spreads keys over
// several servers looks like one server, and is not to be used.
//
// New fails with a [store.ErrInvalid] on a nil client or an unfit prefix, and does not connect yet.
func New(client redis.UniversalClient, options ...Option) (*Store, error) {
	s, err := newStore(client, options)
	if err != nil {
		return nil, err
	}
	s.sender = newSender(client, &s.settings, &s.scripts)
	return s, nil
}

// Own is [New] for a client that is the Store's from now on: Close closes it. If Own fails it
// stays the caller's.
//
// It bounds what the servers of client can cost, whether they are broken or hostile: an
// answer that is not Redis' protocol, or that announces more than 22 MB for all that was
// asked in one go, ends its connection, and a panic of the client becomes the error of what
// was asked. Nothing should have been asked of client before: connections and nodes of a
// Cluster that it knows already are not bounded, and what never reached them can end as a
// [store.ErrOutcomeUnknown].
//
// In a Cluster calls go through the clients of its nodes. A hook of the caller's own, such
// as one for traces, belongs there, before Own:
//
//	client.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
//
// One that is added to the [redis.ClusterClient] itself does not see them, except those
// that have to follow a slot to another node, and checks where client has ReadOnly.
func Own(client redis.UniversalClient, options ...Option) (*Store, error) {
	s, err := newStore(client, options)
	if err != nil {
		return nil, err
	}
	s.owned = true
	redisserver.Guard(client)
	s.servers.LearnLogins()
	watchNodes(client)
	s.servers.WatchMaster()
	if read, write := timeoutsOf(client); longer(read, s.budget) || longer(write, s.budget) { // else the client ends them in time
		redisserver.BoundExchanges(client, s.budget)
	}
	s.sender = newSender(client, &s.settings, &s.scripts) // after the hooks, which it uses
	return s, nil
}

// newStore is what [New] and [Own] have in common: all but the sender.
func newStore(client redis.UniversalClient, options []Option) (*Store, error) {
	if isNil(client) {
		return nil, store.Invalidf("the Redis store needs a client, and it is nil")
	}
	s := &Store{client: client, settings: settings{own: store.DefaultPrefix},
		scripts: newScripts(), large: make(chan struct{}, 1)}
	for _, option := range options {
		option(&s.settings)
	}
	if err := store.ValidatePrefix(string(s.own)); err != nil {
		return nil, err
	}
	if read, _ := timeoutsOf(client); s.budget <= 0 {
		s.budget = read
	}
	if s.budget <= 0 {
		s.budget = defaultBudget
	}
	s.servers = redisserver.New(client, string(s.own), s.secrets...)
	s.isCluster = s.servers.IsCluster()
	s.shards = shardingOf(client)
	return s, nil
}

// isNil reports whether there is no client, or a nil pointer to one.
func isNil(client redis.UniversalClient) bool {
	value := reflect.ValueOf(client)
	return client == nil || value.Kind() == reflect.Pointer && value.IsNil()
}

// Close makes all calls from now on a [store.ErrClosed]. It waits for what is being given back
// of takes over several slots whose callers have left, 5 s at most, and then closes the client if
// the Store owns it. What is on its way at that moment may end as a [store.ErrOutcomeUnknown].
// Closing again returns the same.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		s.servers.Close()
		s.undoing.Wait(undoTimeout)
		if s.owned {
			s.closeErr = s.client.Close()
		}
	})
	return s.closeErr
}

// errClosed is the error of each call of a Store that is closed.
var errClosed = fmt.Errorf("the Redis store is %w", store.ErrClosed)

// check returns errClosed if s is closed.
func (s *Store) check() error {
	if s.closed.Load() {
		return errClosed
	}
	return nil
}
