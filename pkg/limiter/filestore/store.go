// Package filestore keeps limits in one SQLite file: for one machine, with no
// server. Any number of processes can use the file at once, and a process that
// is killed in the middle leaves nothing half done. Concurrent calls of a process share
// transactions, and processes wait for each other in line, at a second file beside the first.
//
// A check, too, needs the right to write the file: SQLite keeps its readers' marks in a
// second file.
//
// A commit survives the end of its process. The last ones before a power failure
// may be lost, which forgets what they charged and damages nothing.
package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	_ "modernc.org/sqlite" // the "sqlite" driver

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Store is a [store.Store] and an [admin.Keyspace] in a file.
type Store struct {
	path   string
	prefix string
	clock  func() time.Time
	// makesDirectory: see WithDirectory.
	makesDirectory bool

	// For readers.
	turn chan struct{} // holds a token while a call reads: one at a time, since SQLite allows no more
	db   *sql.DB       // nil until the file is needed; needs the turn

	// For the writer, which is one goroutine for all callers: see writer.go.
	queue      queue
	writerTurn chan struct{} // like turn
	writer     *connection   // nil until the file is needed; needs the writer's turn
	line       *line         // the same
	taken      []*job        // memory of the writer
}

// An Option changes how a Store is made.
type Option func(*Store)

// WithClock makes the Store decide by clock instead of the machine's time.
func WithClock(clock func() time.Time) Option { return func(s *Store) { s.clock = clock } }

// WithPrefix keeps the limits under prefix instead of [store.DefaultPrefix],
// apart from those of other prefixes in the same file.
func WithPrefix(prefix string) Option { return func(s *Store) { s.prefix = prefix } }

// WithDirectory also creates the directory of the file, for its owner alone. Without it the Store refuses a path in a
// missing directory, since a misspelled path would be a store of its own, in which everything is unused.
func WithDirectory() Option { return func(s *Store) { s.makesDirectory = true } }

// New returns a Store in the file at path. The first take creates the file, in a directory that exists or that
// [WithDirectory] creates. The error is a [store.ErrInvalid] if the path is empty or an option is wrong.
func New(path string, options ...Option) (*Store, error) {
	if path == "" {
		return nil, fmt.Errorf("%w: the file store needs a path, such as file:limits.db", store.ErrInvalid)
	}
	s := &Store{path: path, prefix: store.DefaultPrefix, clock: time.Now, turn: make(chan struct{}, 1),
		writerTurn: make(chan struct{}, 1), queue: queue{wake: make(chan struct{}, 1)}}
	for i, option := range options {
		if option == nil {
			return nil, store.Invalidf("option %d of %d of the file store is nil", i+1, len(options))
		}
		option(s)
	}
	if s.clock == nil {
		return nil, store.Invalidf("the clock of the file store is nil")
	}
	return s, store.ValidatePrefix(s.prefix)
}

// Prefix returns the prefix of the limits; see [WithPrefix].
func (s *Store) Prefix() string { return s.prefix }

// Close closes the file, after the calls that the Store works on. Calls that wait for their turn, and all later ones,
// get a [store.ErrClosed].
func (s *Store) Close() error {
	s.refuse(s.queue.close()) // before the turns: the wait for a locked file ends when no job waits
	s.turn <- struct{}{}
	defer s.giveTurn()
	s.writerTurn <- struct{}{}
	defer func() { <-s.writerTurn }()
	s.refuse(s.queue.close()) // jobs that were put back to run alone
	var errs []error
	if s.db != nil {
		errs = append(errs, s.db.Close())
		s.db = nil
	}
	if s.writer != nil {
		errs = append(errs, s.writer.close())
		s.writer = nil
	}
	if s.line != nil {
		errs = append(errs, s.line.close())
		s.line = nil
	}
	return errors.Join(errs...)
}

// errClosed is the error of each call of a closed Store.
func (s *Store) errClosed() error {
	if s.path == "" {
		return store.Invalidf("the file store is not made by New")
	}
	return fmt.Errorf("file %s is %w", s.path, store.ErrClosed)
}

// refuse answers jobs that were not done because the Store is closed.
func (s *Store) refuse(jobs []*job) {
	for _, j := range jobs {
		j.finish(s.errClosed())
	}
}

// takeTurn waits for earlier readers, until ctx ends or the Store is closed.
func (s *Store) takeTurn(ctx context.Context) error {
	if s.queue.isClosed() {
		return s.errClosed()
	}
	if ctx.Err() != nil {
		return s.late(ctx)
	}
	select {
	case s.turn <- struct{}{}:
		if s.queue.isClosed() { // while it waited
			s.giveTurn()
			return s.errClosed()
		}
		return nil
	case <-ctx.Done():
		return s.late(ctx)
	}
}

func (s *Store) giveTurn() { <-s.turn }

// Decide implements [store.Store] in one transaction.
func (s *Store) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	normalized, err := store.NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	if err := store.CheckStored(normalized); err != nil {
		return err
	}
	if op == store.Peek {
		return s.peek(ctx, normalized, decisions)
	}
	// The writer writes into answers of its own, since the caller may leave meanwhile.
	answers := make([]store.Decision, len(decisions))
	err = s.write(ctx, &job{
		creates: op != store.Refund && op != store.Settle, // which find nothing in a missing file
		do:      func(b *batch) error { return b.decide(op, normalized, answers) },
	})
	if err == nil {
		copy(decisions, answers)
	}
	return err
}
