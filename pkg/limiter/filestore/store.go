// Package filestore keeps limits in one SQLite file: for one machine, with no
// server. Any number of processes can use the file at once, and a process that
// is killed in the middle leaves nothing half done.
//
// A check, too, needs the right to write the file: SQLite keeps its readers' marks in a
// second file.
//
// A commit survives the end of its process. The last ones before a power failure
// may be lost, which forgets what they charged and damages nothing.
package filestore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the "sqlite" driver

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Store is a [store.Store] and an [admin.Keyspace] in a file.
type Store struct {
	admin.Tables
	path   string
	prefix string
	clock  func() time.Time
	// makesDirectory: see WithDirectory.
	makesDirectory bool

	closed         chan struct{} // closed by Close; nil in a Store that New did not make
	closing        sync.Once
	reader, writer connection // so that readers do not wait for writers
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
	s := &Store{path: path, prefix: store.DefaultPrefix, clock: time.Now, closed: make(chan struct{}),
		reader: connection{turn: make(chan struct{}, 1)}, writer: connection{turn: make(chan struct{}, 1)}}
	for i, option := range options {
		if option == nil {
			return nil, store.Invalidf("option %d of %d of the file store is nil", i+1, len(options))
		}
		option(s)
	}
	s.SideTable = side{s}
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
	if s.closed == nil {
		return nil
	}
	s.closing.Do(func() { close(s.closed) })
	var errs []error
	for _, c := range []*connection{&s.reader, &s.writer} {
		c.turn <- struct{}{}
		errs = append(errs, c.close())
		<-c.turn
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

func (s *Store) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return s.closed == nil
	}
}

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
	creates := op != store.Refund && op != store.Settle // which find nothing in a missing file
	return s.write(ctx, creates, func(t *transaction) error { return t.decide(op, normalized, decisions) })
}
