package redisstore

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redisserver"
)

const (
	// inFlight is how many exchanges with the server go on at once before
	// callers share one. Few make large batches, and more let a caller on a
	// slow network wait less for its turn.
	inFlight = 4
	// maxBatch is how many calls share an exchange at most, so that the first
	// does not wait for a great many.
	maxBatch = 128
)

// sender sends calls to the server. A caller alone sends its own; while several
// exchanges are under way, further calls queue and go together in one pipeline
// each time one ends. Every call stays a decision of its own, and is sent once.
type sender struct {
	client redis.UniversalClient

	mu    sync.Mutex
	busy  int // exchanges under way
	queue []*queued
}

// queued is a call waiting to be sent with others.
type queued struct {
	call *call
	done chan struct{} // closed when the call has its answer
}

// send sends c and waits for its answer. An error of a call that may have reached
// the server is a sentError.
func (s *sender) send(ctx context.Context, c *call) error {
	s.mu.Lock()
	if s.busy < inFlight {
		s.busy++
		s.mu.Unlock()
		defer s.next()
		return c.outcome(s.client.Process(ctx, c))
	}
	q := &queued{call: c, done: make(chan struct{})}
	s.queue = append(s.queue, q)
	s.mu.Unlock()
	select {
	case <-q.done:
		return c.outcome(c.Cmd.Err())
	case <-ctx.Done():
		if s.withdraw(q) {
			return ctx.Err()
		}
		return sentError{ctx.Err()}
	}
}

// outcome marks err if the server may have seen c.
func (c *call) outcome(err error) error {
	if err != nil && c.sent && !redisserver.IsErrorReply(err, "") {
		return sentError{err}
	}
	return err
}

// watchNodes makes a call know whether it left for a node of a Cluster. The client reads a
// call's arguments also to find the node, and may fail before it has found one. Call it
// before anything is asked of the client, since it covers only nodes not yet known.
func watchNodes(client redis.UniversalClient) {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(nodeHook{}) })
	}
}

// nodeHook is a [redis.Hook] of the nodes of a Cluster.
type nodeHook struct{}

// DialHook implements [redis.Hook].
func (nodeHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook]. What it sees goes to the node, or is the client's own
// question which nodes there are.
func (nodeHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		notYet(cmd)
		err := next(ctx, cmd)
		if err != nil && cmd.FullName() == "cluster slots" {
			return &discoveryError{err}
		}
		return err
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (nodeHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		notYet(cmds...)
		return next(ctx, cmds)
	}
}

// notYet takes back that calls were sent. Another node they were sent to before
// has answered that they are not its own.
func notYet(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if c, ok := cmd.(*call); ok {
			c.sent = false
		}
	}
}

// discoveryError says that the client could not learn the nodes of a Cluster, for
// whatever call.
type discoveryError struct{ error }

func (e *discoveryError) Unwrap() error { return e.error }

// withdraw takes q out of the queue, if it is still there.
func (s *sender) withdraw(q *queued) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.queue {
		if s.queue[i] == q {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			return true
		}
	}
	return false
}

// next ends an exchange and begins another for what has queued meanwhile.
func (s *sender) next() {
	s.mu.Lock()
	n := min(len(s.queue), maxBatch)
	if n == 0 {
		s.busy--
		s.mu.Unlock()
		return
	}
	batch := s.queue[:n:n]
	s.queue = s.queue[n:]
	s.mu.Unlock()
	panics.Go(func() error { return s.exchange(batch) }, func(panicked error) {
		for _, q := range batch {
			if panicked != nil {
				q.call.SetErr(panicked)
			}
			close(q.done)
		}
		s.next()
	})
}

// exchange sends a batch. It is no single caller's, so that one giving up does
// not take the others with it; the client's own timeouts bound it.
func (s *sender) exchange(batch []*queued) error {
	pipe := s.client.Pipeline()
	ctx := context.Background()
	for _, q := range batch {
		pipe.Process(ctx, q.call)
	}
	pipe.Exec(ctx) // each call has its own error
	return nil
}
