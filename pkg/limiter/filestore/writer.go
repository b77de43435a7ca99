package filestore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// mostTogether is the most jobs of a transaction. More are not faster, and make the first ones wait.
	mostTogether = 256
	// burst is how long one process goes on writing while others wait. Each change of the process costs as much as
	// some takes: the next process must wake up and read again what has changed.
	burst = 2 * time.Millisecond
	// pause is how long a process leaves the file to those that wait, after its burst.
	pause = 500 * time.Microsecond
)

// writeAll does jobs until the Store is closed. Each Store has at most one at a time.
func (s *Store) writeAll() error {
	for s.queue.wait() {
		// The writer stops trying a busy file when nobody waits. Who has come since then is not refused for that.
		if err := s.writeBurst(); err != nil && !hasCode(err, sqlite3.SQLITE_BUSY) {
			for _, j := range s.queue.takeAll(false) {
				j.finish(err)
			}
		}
	}
	return nil
}

// writerEnded fails the jobs that wait for a writer that panicked.
func (s *Store) writerEnded(err error) {
	if err == nil {
		return
	}
	for _, j := range s.queue.takeAll(true) {
		j.finish(err)
	}
}

func (j *job) finish(err error) {
	j.err = err
	close(j.done)
}

// writeBurst does jobs while some wait and its burst is not over. An error is for all jobs that wait.
func (s *Store) writeBurst() error {
	line, err := s.prepareToWrite()
	if err != nil {
		return err
	}
	// It waits without the turn: another process may hold the file for long, and the Store can be closed meanwhile.
	line.wait()
	defer line.leave()
	s.writerTurn <- struct{}{}
	defer func() { <-s.writerTurn }()
	for !s.queue.isEmpty() {
		if err := s.writeOnce(); err != nil {
			return err
		}
		s.queue.expect()
		if line.isOver(burst) {
			line.leave()
			time.Sleep(pause)
			return nil
		}
	}
	return nil
}

// prepareToWrite opens what a writer needs, and returns the line of processes.
func (s *Store) prepareToWrite() (*line, error) {
	s.writerTurn <- struct{}{}
	defer func() { <-s.writerTurn }()
	if s.queue.isClosed() { // the jobs already have their answers
		return nil, s.errClosed()
	}
	err := s.openWriter()
	if err != nil && !errors.Is(err, errMissing) {
		return nil, s.translate(context.Background(), err, false)
	}
	if s.line == nil && err == nil {
		if s.line, err = openLine(s.path); err != nil {
			return nil, s.translate(context.Background(), err, false)
		}
	}
	return s.line, nil
}

// openWriter opens the writer's connection. It needs the writer's turn.
func (s *Store) openWriter() error {
	if s.writer != nil {
		return nil
	}
	return retryBusy(s.queue.isEmpty, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), maxFileWait)
		defer cancel()
		db, err := s.openDatabase(ctx, s.queue.creates())
		if err != nil {
			return err
		}
		s.writer, err = newConnection(ctx, db)
		return err
	})
}

// writeOnce does the next jobs in one transaction. It needs the writer's turn.
func (s *Store) writeOnce() error {
	err := s.openWriter()
	if errors.Is(err, errMissing) {
		s.doTogether(nil)
		return nil
	}
	if err != nil {
		return s.translate(context.Background(), err, false)
	}
	if s.queue.isSQLNext() {
		return s.writeSQL()
	}
	return s.writer.use(func() error {
		// Until the transaction has begun, callers may leave.
		if err := retryBusy(s.queue.isEmpty, s.writer.begin); err != nil {
			return s.translate(context.Background(), err, false)
		}
		s.doTogether(s.writer)
		return nil
	})
}

// writeSQL does the next job if it writes by statements of its own.
func (s *Store) writeSQL() error {
	var tx *sql.Tx
	err := retryBusy(s.queue.isEmpty, func() (err error) {
		tx, err = s.writer.conn.BeginTx(context.Background(), nil)
		return err
	})
	if err != nil {
		return s.translate(context.Background(), err, false)
	}
	defer tx.Rollback()
	jobs := s.queue.take(nil, true, false)
	if len(jobs) == 0 { // it has left
		return nil
	}
	j := jobs[0]
	committing := false
	err = panics.Call(func() error {
		if err := j.sql(tx, store.InstantOf(s.clock())); err != nil {
			return err
		}
		committing = true
		return tx.Commit()
	})
	j.finish(s.translate(context.Background(), err, committing))
	return nil
}

// doTogether does the next jobs in the transaction that has begun. c is nil if the file is missing.
func (s *Store) doTogether(c *connection) {
	s.taken = s.queue.take(s.taken[:0], false, c == nil)
	committing := false
	err := panics.Call(func() error {
		b := batch{connection: c, prefix: s.prefix, now: store.InstantOf(s.clock())}
		for _, j := range s.taken {
			j.err = j.do(&b)
			if j.err != nil && !isOwn(j.err) {
				return j.err
			}
		}
		if c == nil {
			return nil
		}
		isChanged, err := b.store()
		if err != nil || !isChanged {
			c.rollback()
			return err
		}
		committing = true
		return c.commit()
	})
	if err != nil && c != nil {
		c.rollback()
	}
	if err != nil && len(s.taken) > 1 && !committing {
		s.queue.putBack(s.taken) // perhaps only one of them causes the error
	} else {
		for _, j := range s.taken {
			if err != nil {
				j.err = s.translate(context.Background(), err, committing)
			}
			close(j.done)
		}
	}
	clear(s.taken)
}
