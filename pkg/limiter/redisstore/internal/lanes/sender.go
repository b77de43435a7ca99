// Package lanes sends calls to Redis, and decides by them what lies in one slot. Each server has a lane. Callers that
// find it busy share an exchange, and their decisions are merged into few script calls. Each decision is still
// independent, is sent at most once, and has its own error, which says whether the decision may have happened.
package lanes

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// longer reports whether a client's time-out exceeds budget. One that is not above 0 is none at all.
func longer(timeout, budget time.Duration) bool { return timeout <= 0 || timeout > budget }

// Settings say how a sender sends.
type Settings struct {
	Own     admin.OwnLayout  // of the limits that are decided
	Clock   func() time.Time // nil for the server's
	Budget  time.Duration    // how long one call may take
	Owned   bool             // what the client does ends within the budget
	OnBatch func(calls int)  // nil for nobody
}

// Sender sends calls to the server, or to the node of a Cluster that has their key.
// Each node has its own lane, so that a node that hangs delays no other.
type Sender struct {
	Settings
	Client  redis.UniversalClient
	Servers *redisserver.Servers
	cluster *redis.ClusterClient // nil if the client is none
	works   sync.Pool            // of *work
	large   chan struct{}        // holds the one call whose answer may be large
	closed  atomic.Bool
	Ahead   atomic.Int64 // ms that the server's clock is ahead of ours, as far as known

	// noReadOnly is set once the server turns out to be older than Redis 7, which brought EVALSHA_RO. The scripts
	// themselves never write on a peek.
	noReadOnly   atomic.Bool
	NoExpireTime atomic.Bool // PEXPIRETIME, which came with Redis 7, is not to be had

	single *lane // without a Cluster

	knowsNodes atomic.Bool // the client of a Cluster has asked for its nodes

	mu    sync.RWMutex
	lanes map[*redis.Client]*lane // of a Cluster
}

// NewSender returns a sender on client, which is that of a server or of a Cluster. A hook that client gets later is
// passed by.
func NewSender(client redis.UniversalClient, servers *redisserver.Servers, settings Settings) *Sender {
	s := &Sender{Settings: settings, Client: client, Servers: servers, large: make(chan struct{}, 1),
		lanes: map[*redis.Client]*lane{}}
	switch c := client.(type) {
	case *redis.ClusterClient:
		s.cluster = c
	case *redis.Client:
		s.single = s.newLane(c)
	}
	return s
}

// errClosed is the error of each call of a Store that is closed.
var errClosed = fmt.Errorf("the Redis store is %w", store.ErrClosed)

// Close makes each call from now on an errClosed.
func (s *Sender) Close() { s.closed.Store(true) }

// Check returns errClosed if s is closed.
func (s *Sender) Check() error {
	if s == nil {
		return store.Invalidf("the Redis store is not made by New, Own or Open")
	}
	if s.closed.Load() {
		return errClosed
	}
	return nil
}

// IsCluster reports whether the servers are a Cluster.
func (s *Sender) IsCluster() bool { return s.cluster != nil }

// Read sends a command that changes nothing to the server that has key.
func (s *Sender) Read(ctx context.Context, key string, words ...any) (*redis.Cmd, error) {
	return s.Write(ctx, key, false, words...)
}

// Write sends a command to the server that has key. With once it is sent at most once.
func (s *Sender) Write(ctx context.Context, key string, once bool, words ...any) (*redis.Cmd, error) {
	return s.send(ctx, &call{Cmd: *redis.NewCmd(ctx, words...), key: key, once: once})
}

// send sends c and waits for its answer.
func (s *Sender) send(ctx context.Context, c *call) (*redis.Cmd, error) {
	a := &ask{call: c}
	err := s.ask(ctx, a)
	return &a.call.Cmd, err
}

// Load returns the load of the lane for a key: exchanges under way, calls in the queue, and exchanges without callers.
func (s *Sender) Load(key string) (busy, waiting, abandoned int) {
	l := s.single
	if l == nil {
		l, _ = s.laneOf(context.Background(), key, time.Now().Add(s.Budget))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy, l.waiting, l.abandoned
}

// ask sends a and waits for its answer, no longer than ctx and the budget allow. If a was sent
// alone, a.call holds the answer afterwards. What is known about an error is in a callError.
func (s *Sender) ask(ctx context.Context, a *ask) error {
	for {
		a.since = time.Now()
		a.late = a.since.Add(s.Budget)
		err := fromCaller(ctx, s.route(ctx, a))
		again := s.reworded(ctx, a.call, err)
		if again == nil {
			return err
		}
		a.again(again)
	}
}

// fromCaller marks err if it came because ctx, the caller's, has ended.
func fromCaller(ctx context.Context, err error) error {
	if err == nil || redisserver.IsErrorReply(err, "") {
		return err
	}
	if reason := store.GaveUp(ctx); reason != nil {
		e := known(err)
		e.gaveUp = reason
		return e
	}
	return err
}

// atNode marks err, which came from a node of a Cluster.
func atNode(err error, address string) error {
	e := known(err)
	e.atNode, e.node = true, address
	return e
}

// Named marks err if it came from a node of a Cluster.
func (s *Sender) Named(err error, server redis.Cmdable) error {
	if node, is := server.(*redis.Client); is && err != nil && s.IsCluster() {
		return atNode(err, node.Options().Addr)
	}
	return err
}

// route sends a to the node that has its key.
func (s *Sender) route(ctx context.Context, a *ask) error {
	if s.single != nil {
		return s.single.send(ctx, a)
	}
	lane, err := s.laneOf(ctx, a.place(), a.late)
	if err != nil {
		return err
	}
	err = lane.send(ctx, a)
	if redisserver.IsElsewhere(err) {
		// The slot is elsewhere by now, or on its way. Nothing has happened yet.
		s.cluster.ReloadState(context.Background())
		a.call.state.CompareAndSwap(sent, unsent)
		elsewhere := placeIn(err)
		if err = s.sendAnywhere(ctx, a.call, a.late); err != nil {
			return atNode(err, elsewhere)
		}
		return nil
	}
	return s.Named(err, lane.client)
}

// placeIn returns the address in "MOVED 3999 127.0.0.1:6381", empty if there is none.
func placeIn(reply error) string {
	words := strings.Fields(reply.Error())
	if len(words) < 3 || strings.HasPrefix(words[2], ":") {
		return ""
	}
	return words[2]
}

// sendAnywhere lets the client of a Cluster find the node for c, and follow where that node sends it.
func (s *Sender) sendAnywhere(ctx context.Context, c *call, deadline time.Time) error {
	err, answered := within(ctx, deadline, func(ctx context.Context) error { return s.Client.Process(ctx, c) })
	if !answered && withdraw(&c.state) {
		return err
	}
	return c.outcome(err)
}

// laneOf returns the lane to the master that has key. A client asks for the nodes when
// it first needs them, and knows them from then on.
func (s *Sender) laneOf(ctx context.Context, key string, deadline time.Time) (*lane, error) {
	found := make(chan *redis.Client, 1)
	find := func(ctx context.Context) error {
		node, err := s.cluster.MasterForKey(ctx, key)
		found <- node
		return err
	}
	var err error
	if s.knowsNodes.Load() {
		err = panics.Call(func() error { return find(ctx) })
	} else {
		err, _ = within(ctx, deadline, find)
	}
	if err != nil {
		return nil, &redisserver.DiscoveryError{Err: err}
	}
	s.knowsNodes.Store(true)
	node := <-found
	s.mu.RLock()
	l := s.lanes[node]
	s.mu.RUnlock()
	if l != nil {
		return l, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l = s.lanes[node]; l == nil {
		l = s.newLane(node)
		s.lanes[node] = l
	}
	return l, nil
}

// ShardOf returns the address of the master that has a subject's keys, as far as the client
// of a Cluster knows. It is empty without a Cluster.
func (s *Sender) ShardOf(subject string) string {
	if s.cluster == nil || !s.knowsNodes.Load() {
		return ""
	}
	node, err := s.cluster.MasterForKey(context.Background(), subject) // which is the hash tag of all its keys
	if err != nil {
		return ""
	}
	return node.Options().Addr
}

// within calls f and waits for it until deadline, or until ctx ends. f then goes on
// with an ended context, and answered is false.
func within(ctx context.Context, deadline time.Time, f func(ctx context.Context) error) (err error, answered bool) {
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, errLate)
	result := make(chan error, 1)
	panics.Go(func() error { return f(ctx) }, func(err error) {
		result <- err
		cancel()
	})
	<-ctx.Done()
	select {
	case err := <-result:
		return err, true
	default:
		return context.Cause(ctx), false
	}
}
