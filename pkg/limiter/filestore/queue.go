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

// A job is one call that may write. The writer does several jobs in one transaction, but each by itself: if one is
// refused, that does not affect the others.
type job struct {
	// creates: the job creates the file if it is missing.
	creates bool
	// do answers the call. It returns an error only if it has changed nothing.
	do func(b *batch) error
	// sql replaces do for a job that writes by statements of its own. It is alone in its transaction.
	sql func(tx *sql.Tx, now store.Instant) error

	place *list.Element // in the queue; nil once the writer has taken the job
	alone bool          // it failed together with others, and runs again without them
	err   error
	done  chan struct{} // closed when err and the results of do can be read
}

// queue has the jobs that wait for the writer, the oldest first.
type queue struct {
	mu      sync.Mutex
	jobs    list.List
	writing bool          // there is a writer
	closed  bool          // like the Store
	wake    chan struct{} // wakes the writer; room for one
}

// add appends j, and reports whether the caller must start the writer. It does neither if the
// queue is closed.
func (q *queue) add(j *job) (start, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.wake == nil {
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
		waits, closed := q.jobs.Len() > 0, q.closed
		q.writing = waits || !closed
		q.mu.Unlock()
		if waits || closed {
			return waits
		}
		<-q.wake
	}
}

// expect lets callers that just got their answers call again. Then several calls share a transaction, and a single
// caller finds the file still locked for this process.
func (q *queue) expect() {
	for range 4 {
		runtime.Gosched()
		if !q.isEmpty() {
			return
		}
	}
}

// close closes the queue, and ends an idle writer. It returns the jobs that wait.
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
	return q.closed || q.wake == nil // of a Store that New did not make
}

// leave removes j from the queue. It reports false if the writer has already taken it.
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

// putBack puts jobs back in front of all others. Each then runs alone.
func (q *queue) putBack(jobs []*job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := len(jobs) - 1; i >= 0; i-- {
		jobs[i].alone = true
		jobs[i].place = q.jobs.PushFront(jobs[i])
	}
}

// takeAll takes all jobs, to fail them. gone: the writer has ended.
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

// creates reports whether a waiting job creates the file.
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
	// maxFileWait is the longest wait for the file of a call without a deadline.
	maxFileWait = 10 * time.Second
	// lastMoment is how long a call waits for its outcome if its time ends while the writer works on it. The outcome
	// usually comes at once, and without it the caller does not know what was charged.
	lastMoment = 20 * time.Millisecond
)

// write gives j to the writer, and waits for it until ctx ends.
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
	if s.queue.leave(j) { // it failed together with others, and is back in the queue
		return s.late(ctx)
	}
	if gaveUp := store.GaveUp(ctx); gaveUp != nil {
		return fmt.Errorf("%w: file %s: %w", store.ErrOutcomeUnknown, s.path, gaveUp)
	}
	return fmt.Errorf("%w: file %s has not answered in time", store.ErrOutcomeUnknown, s.path)
}

// late returns the error of a call for which nothing was done until ctx ended, or within maxFileWait.
func (s *Store) late(ctx context.Context) error {
	if gaveUp := store.GaveUp(ctx); gaveUp != nil {
		return fmt.Errorf("file %s had not answered when %w", s.path, gaveUp)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: file %s is busy or locked by another process: %w", store.ErrUnavailable, s.path, err)
	}
	return fmt.Errorf("%w: file %s has been busy or locked by another process for %s", store.ErrUnavailable, s.path, maxFileWait)
}
