package redisstore

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sender sends calls to the server, or to the node of a Cluster that has their key.
// Each node has a lane of its own, so that one which hangs holds up nobody else.
type sender struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // nil if client is none
	budget  time.Duration        // how long one call may take
	scripts *scripts
	clock   func() time.Time
	onBatch func(calls int)
	owned   bool // what client does ends within the budget

	single *lane // without a Cluster

	knowsNodes atomic.Bool // the client of a Cluster has asked for its nodes

	mu    sync.RWMutex
	lanes map[*redis.Client]*lane // of a Cluster
}

func newSender(client redis.UniversalClient, settings *settings, scripts *scripts) *sender {
	s := &sender{client: client, budget: settings.budget, scripts: scripts, clock: settings.clock, onBatch: settings.onBatch,
		owned: settings.owned, lanes: map[*redis.Client]*lane{}}
	if s.cluster, _ = client.(*redis.ClusterClient); s.cluster == nil {
		s.single = s.newLane(client)
	}
	return s
}

// send is ask for a call.
func (s *sender) send(ctx context.Context, c *call) error { return s.ask(ctx, &queued{call: c}) }

// ask sends q and waits for its answer, no longer than ctx and the budget allow. What went by
// itself is a call afterwards, and its answer there. An error of what may have reached the server is a
// sentError, one that came when the caller's own time was over is a callerError, and one from a node a nodeError.
func (s *sender) ask(ctx context.Context, q *queued) error {
	for {
		q.since = time.Now()
		q.late = q.since.Add(s.budget)
		err := fromCaller(ctx, s.route(ctx, q))
		again := s.scripts.reworded(ctx, q.call, err)
		if again == nil {
			return err
		}
		*q = queued{call: again, done: q.done}
	}
}

// fromCaller marks err if it came because ctx, the caller's, has ended.
func fromCaller(ctx context.Context, err error) error {
	if err == nil || redisserver.IsErrorReply(err, "") {
		return err
	}
	if reason := store.GaveUp(ctx); reason != nil {
		return &callerError{err, reason}
	}
	return err
}

// callerError marks an error that came because the caller's context ended.
type callerError struct {
	error
	reason error // a store.ErrGaveUp
}

func (e *callerError) Unwrap() error { return e.error }

// nodeError says which node an error came from.
type nodeError struct {
	error
	address string
}

func (e *nodeError) Unwrap() error { return e.error }

// named marks an error of l, the lane to a node of a Cluster.
func (l *lane) named(err error) error {
	if node, ok := l.client.(*redis.Client); ok && err != nil {
		return &nodeError{err, node.Options().Addr}
	}
	return err
}

// route sends q to the node that has its key.
func (s *sender) route(ctx context.Context, q *queued) error {
	if s.single != nil {
		return s.single.send(ctx, q)
	}
	key, reads := q.place()
	if key == "" || reads && s.cluster.Options().ReadOnly { // a replica's, perhaps
		return s.sendAnywhere(ctx, q.alone(ctx), q.late)
	}
	lane, err := s.laneOf(ctx, key, q.late)
	if err != nil {
		return err
	}
	err = lane.send(ctx, q)
	if redisserver.IsElsewhere(err) {
		// The slot is elsewhere by now, or on its way. Nothing has happened yet.
		s.cluster.ReloadState(context.Background())
		q.call.state.CompareAndSwap(sent, unsent)
		elsewhere := placeIn(err)
		if err = s.sendAnywhere(ctx, q.call, q.late); err != nil {
			return &nodeError{err, elsewhere}
		}
		return nil
	}
	return lane.named(err)
}

// placeIn returns the address in "MOVED 3999 127.0.0.1:6381", empty if there is none.
func placeIn(reply error) string {
	words := strings.Fields(reply.Error())
	if len(words) < 3 || strings.HasPrefix(words[2], ":") {
		return ""
	}
	return words[2]
}

// sendAnywhere lets the client of a Cluster find the node for c, and follow where that
// node sends it.
func (s *sender) sendAnywhere(ctx context.Context, c *call, deadline time.Time) error {
	err, answered := within(ctx, deadline, func(ctx context.Context) error { return s.client.Process(ctx, c) })
	if !answered && withdraw(&c.state) {
		return err
	}
	return c.outcome(err)
}

// mostLanes is how many lanes are kept, more than a Cluster has nodes: nodes leave, and
// come back as another client.
const mostLanes = 2048

// laneOf returns the lane to the master that has key. A client asks for the nodes when
// it first needs them, and knows them from then on.
func (s *sender) laneOf(ctx context.Context, key string, deadline time.Time) (*lane, error) {
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
		if len(s.lanes) >= mostLanes {
			maps.DeleteFunc(s.lanes, func(_ *redis.Client, l *lane) bool { return l.idle() })
		}
		l = s.newLane(node)
		s.lanes[node] = l
	}
	return l, nil
}

// partOf returns the address of the master that has a subject's keys, as far as the client
// of a Cluster knows. It is empty without a Cluster.
func (s *sender) partOf(subject string) string {
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
