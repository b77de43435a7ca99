package redisstore

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
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
		err := s.client.Process(ctx, c)
		s.next()
		return c.outcome(err)
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
	if err != nil && c.sent && !isServerError(err, "") {
		return sentError{err}
	}
	return err
}

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
	go s.exchange(batch)
}

// exchange sends a batch. It is no single caller's, so that one giving up does
// not take the others with it; the client's own timeouts bound it.
func (s *sender) exchange(batch []*queued) {
	pipe := s.client.Pipeline()
	ctx := context.Background()
	for _, q := range batch {
		pipe.Process(ctx, q.call)
	}
	pipe.Exec(ctx) // each call has its own error
	for _, q := range batch {
		close(q.done)
	}
	s.next()
}
