package filestore

import (
	"container/list"
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A job is one call that may write. The writer does it together with others, in one
// transaction, but each by itself: what one refuses does not concern the others.
type job struct {
	// creates: the file is made if it is missing.
	creates bool
	// do answers the call. It returns an error only before it has changed anything.
	do func(b *batch) error
	// sql is instead of do for what writes by statements of its own, always alone.
	sql func(tx *sql.Tx, now store.Instant) error

	place *list.Element // in the queue; nil once the writer has taken the job
	alone bool          //  it failed together with others, and is done again without them
	err   error
	done  chan struct{} // closed when err, and what do has found out, may be read
}

// queue is the jobs that wait for the writer, the oldest first.
type queue struct {
	mu      sync.Mutex
	jobs    list.List
	writing bool          // there is a writer
	closed  bool          // for good, as the Store is
	wake    chan struct{} // wakes the writer; room for one
}

// add appends j, and reports whether the caller must start the writer. It does neither if the
// queue is closed.
func (q *queue) add(j *job) (start, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, true
	}
	j.place = q.jobs.PushBack(j)
	start = !q.writing
	q.writing = true
	q.rouse()
	return start, false
}

// rouse wakes the writer if it is idle.
func (q *queue) rouse() {
	select {
	case q.wake <- struct{}{}:
	default: // it is awake, or will be
	}
}

// wait waits for jobs. It reports false when the queue is closed and empty: the writer must end then. An idle writer
// stays, since to start one costs about as much as a take: SQLite needs more stack than a goroutine begins with.
func (q *queue) wait() bool {
	for {
		q.mu.Lock()
		if q.jobs.Len() > 0 || q.closed {
			q.writing = q.jobs.Len() > 0
			q.mu.Unlock()
			return q.writing
		}
		q.mu.Unlock()
		<-q.wake
	}
}

// expect lets those that were just answered ask again: several then come together, and one
// finds the file still in hand.
func (q *queue) expect() {
	for range 4 {
		runtime.Gosched()
		if !q.isEmpty() {
			return
		}
	}
}

// close lets nothing in any more, and an idle writer end. It returns the jobs that wait.
func (q *queue) close() []*job {
	q.mu.Lock()
	q.closed = true
	q.rouse()
	q.mu.Unlock()
	return q.takeAll(false)
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// leave takes j out of the queue. It reports false if the writer has taken it already.
func (q *queue) leave(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j.place == nil {
		return false
	}
	q.jobs.Remove(j.place)
	j.place = nil
	return true
}

// take appends the next jobs to do together to buf: either one with sql, or several without. If the file is missing, it
// takes none that creates the file.
func (q *queue) take(buf []*job, isSQL, isMissing bool) []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	for e := q.jobs.Front(); e != nil && len(buf) < mostTogether; e = q.jobs.Front() {
		j := e.Value.(*job)
		isAlone := j.alone || isSQL
		if (j.sql != nil) != isSQL || isAlone && len(buf) > 0 || j.creates && isMissing {
			break
		}
		q.jobs.Remove(e)
		j.place = nil
		if buf = append(buf, j); isAlone {
			break
		}
	}
	return buf
}

// isSQLNext reports whether the next job writes by statements of its own.
func (q *queue) isSQLNext() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	front := q.jobs.Front()
	return front != nil && front.Value.(*job).sql != nil
}

// putBack lets jobs wait again, before all others, each to be done alone.
func (q *queue) putBack(jobs []*job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := len(jobs) - 1; i >= 0; i-- {
		jobs[i].alone = true
		jobs[i].place = q.jobs.PushFront(jobs[i])
	}
}

// takeAll takes all jobs, to fail them. gone says that their writer is no more.
func (q *queue) takeAll(gone bool) (jobs []*job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for e := q.jobs.Front(); e != nil; e = q.jobs.Front() {
		j := q.jobs.Remove(e).(*job)
		j.place = nil
		jobs = append(jobs, j)
	}
	q.writing = q.writing && !gone
	return jobs
}

func (q *queue) isEmpty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.jobs.Len() == 0
}

// creates reports whether a job that waits makes the file.
func (q *queue) creates() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for e := q.jobs.Front(); e != nil; e = e.Next() {
		if e.Value.(*job).creates {
			return true
		}
	}
	return false
}

const (
	// maxFileWait is how long a call without a deadline waits for the file.
	maxFileWait = 10 * time.Second
	// lastMoment is how long a call that is being done when its time is over waits for the
	// outcome. Mostly it comes at once, and without it nobody knows what was charged.
	lastMoment = 20 * time.Millisecond
)

// write has the writer do j, and waits for it as long as ctx lasts.
func (s *Store) write(ctx context.Context, j *job) error {
	if ctx.Err() != nil {
		return s.late(ctx)
	}
	j.done = make(chan struct{})
	start, closed := s.queue.add(j)
	if closed {
		return s.errClosed()
	}
	if start {
		panics.Go(s.writeAll, s.writerEnded)
	}
	var tooLong <-chan time.Time
	if _, limited := ctx.Deadline(); !limited {
		timer := time.NewTimer(maxFileWait)
		defer timer.Stop()
		tooLong = timer.C
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
	case <-tooLong:
	}
	if s.queue.leave(j) {
		return s.late(ctx)
	}
	timer := time.NewTimer(lastMoment)
	defer timer.Stop()
	select {
	case <-j.done:
		return j.err
	case <-timer.C:
	}
	if s.queue.leave(j) { // it failed together with others, and waits again
		return s.late(ctx)
	}
	if gaveUp := store.GaveUp(ctx); gaveUp != nil {
		return fmt.Errorf("%w: file %s: %w", store.ErrOutcomeUnknown, s.path, gaveUp)
	}
	return fmt.Errorf("%w: file %s has not answered in time", store.ErrOutcomeUnknown, s.path)
}

// late says that nothing was done before ctx ended, or within maxFileWait.
func (s *Store) late(ctx context.Context) error {
	if gaveUp := store.GaveUp(ctx); gaveUp != nil {
		return fmt.Errorf("file %s had not answered when %w", s.path, gaveUp)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: file %s is busy or locked by another process: %w", store.ErrUnavailable, s.path, err)
	}
	return fmt.Errorf("%w: file %s has been busy or locked by another process for %s", store.ErrUnavailable, s.path, maxFileWait)
}
