package filestore

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// together has the takes that wait for the writer. Who gets the turn does them all in one transaction, each by itself:
// one that is refused does not affect the others.
type together struct {
	mu      sync.Mutex
	waiting []*job
}

type job struct {
	do   func(t *transaction) error // it returns an error of its own only if it has changed nothing
	err  error
	done chan struct{} // closed when err can be read
}

// leave removes j. It reports false if somebody has taken it.
func (g *together) leave(j *job) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, j)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

// takeAll takes all jobs that wait.
func (g *together) takeAll() []*job {
	g.mu.Lock()
	defer g.mu.Unlock()
	jobs := g.waiting
	g.waiting = nil
	return jobs
}

// writeTogether is write for calls that may share a transaction.
func (s *Store) writeTogether(ctx context.Context, creates bool, do func(t *transaction) error) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	j := &job{do: do, done: make(chan struct{})}
	s.takes.mu.Lock()
	s.takes.waiting = append(s.takes.waiting, j)
	s.takes.mu.Unlock()
	err := s.takeTurn(ctx, &s.writer, j.done)
	if !s.takes.leave(j) { // another call does it, which does not take long
		if err == nil {
			s.writer.giveTurn()
		}
		<-j.done
		return j.err
	}
	if err != nil {
		return err
	}
	defer s.writer.giveTurn()
	jobs := []*job{j}
	err = s.transact(ctx, creates, func(t *transaction) error {
		if t.connection != nil {
			runtime.Gosched() // callers that just got their answers call again
			jobs = append(jobs, s.takes.takeAll()...)
			t.now = store.InstantOf(s.clock()) // none is decided before it was called
		}
		for _, j := range jobs {
			if j.err = j.do(t); j.err != nil && !isOwn(j.err) {
				return j.err
			}
		}
		return nil
	})
	for _, j := range jobs {
		if err != nil {
			j.err = err
		}
		close(j.done)
	}
	return j.err
}
