// Package filestore keeps limits in one SQLite file: for one machine, with no server. Any number of processes can use
// the file at once, and a process that is killed in the middle leaves nothing half done.
//
// A check, too, needs the right to write the file: SQLite keeps its readers' marks in a second file.
//
// A commit survives the end of its process. The last ones before a power failure
// may be lost, which forgets what they charged and damages nothing.
package filestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"time"

	"modernc.org/sqlite"
	_ "modernc.org/sqlite" // the "sqlite" driver
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/limitctl/limitctl/internal/keystates"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Store is a [store.Store] and an [admin.Keyspace] in a file.
type Store struct {
	admin.Tables
	operator
	path   string
	prefix string
	clock  func() time.Time
	// makesDirectory: see WithDirectory.
	makesDirectory bool

	closed         chan struct{} // closed by Close
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
	s.SideTable, s.operator = side{s}, keystates.NewOperator(s.change, true)
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
func (s *Store) errClosed() error { return fmt.Errorf("file %s is %w", s.path, store.ErrClosed) }

func (s *Store) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
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
	decide := func(t *transaction) error { return t.decide(op, normalized, decisions) }
	if op == store.Peek {
		return s.read(ctx, decide)
	}
	return s.write(ctx, op != store.Refund && op != store.Settle, decide) // these find nothing in a missing file
}

// connection is a connection to the file, for one call at a time.
type connection struct {
	turn       chan struct{} // holds a token while a call uses what is below
	db         *sql.DB       // nil until the file is needed
	conn       *sql.Conn
	statements map[string]*sql.Stmt // prepared, by their text
}

// maxFileWait is the longest wait for the file of a call without a deadline.
const maxFileWait = 10 * time.Second

// limited returns ctx with an end.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return store.BudgetContext(ctx, maxFileWait)
}

// takeTurn waits for earlier calls, until ctx ends or the Store is closed.
func (s *Store) takeTurn(ctx context.Context, c *connection) error {
	switch {
	case s.closed == nil:
		return store.Invalidf("the file store is not made by New")
	case s.isClosed():
		return s.errClosed()
	case ctx.Err() != nil:
		return s.late(ctx)
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return s.late(ctx)
	case <-s.closed:
		return s.errClosed()
	}
	if s.isClosed() { // while it waited
		c.giveTurn()
		return s.errClosed()
	}
	return nil
}

func (c *connection) giveTurn() { <-c.turn }

// open opens the file, and creates it if creates is set. Without it, a missing file is an errMissing. It needs the
// turn.
func (s *Store) open(ctx context.Context, c *connection, creates bool) error {
	if c.db != nil {
		return nil
	}
	return s.retryBusy(ctx, func() (err error) {
		if c.db, err = s.openDatabase(ctx, creates); err != nil {
			return err
		}
		c.statements = map[string]*sql.Stmt{}
		if c.conn, err = c.db.Conn(context.Background()); err != nil {
			return errors.Join(err, c.close())
		}
		return nil
	})
}

// exec executes a statement, which stays prepared.
func (c *connection) exec(text string, args ...any) error {
	prepared, err := c.statement(text)
	if err == nil {
		_, err = prepared.Exec(args...)
	}
	return err
}

func (c *connection) statement(text string) (prepared *sql.Stmt, err error) {
	if prepared = c.statements[text]; prepared == nil {
		if prepared, err = c.conn.PrepareContext(context.Background(), text); err == nil {
			c.statements[text] = prepared
		}
	}
	return prepared, err
}

func (c *connection) close() error {
	if c.db == nil {
		return nil
	}
	var errs []error
	for _, prepared := range c.statements {
		errs = append(errs, prepared.Close())
	}
	if c.conn != nil {
		errs = append(errs, c.conn.Close())
	}
	errs = append(errs, c.db.Close())
	c.db, c.conn, c.statements = nil, nil, nil
	return errors.Join(errs...)
}

const (
	// busyTimeout is how long SQLite itself waits for the lock of another process, before it returns and we can look at
	// the context. Each of its tries keeps others from the processor: with 50 processes, 5 ms cost four fifths of the
	// takes.
	busyTimeout = time.Millisecond
	// mostPause is the longest pause between tries, and how late a call can learn that its time is over.
	mostPause = 20 * time.Millisecond
)

// retryBusy calls do, which needs SQLite's lock, until it gets the lock, ctx ends or the Store is closed. Nothing has
// been written when SQLite says busy.
func (s *Store) retryBusy(ctx context.Context, do func() error) error {
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, mostPause) {
		err := do()
		if !hasCode(err, sqlite3.SQLITE_BUSY) || ctx.Err() != nil {
			return err
		}
		if s.isClosed() {
			return s.errClosed()
		}
		time.Sleep(rand.N(pause)) // a random pause, so that processes do not stay in step
	}
}

// late returns the error of a call for which nothing was done until ctx ended.
func (s *Store) late(ctx context.Context) error {
	if gaveUp := store.GaveUp(ctx); gaveUp != nil {
		return fmt.Errorf("file %s had not answered when %w", s.path, gaveUp)
	}
	return fmt.Errorf("%w: file %s is busy or locked by another process: %w", store.ErrUnavailable, s.path,
		cmp.Or(ctx.Err(), context.DeadlineExceeded))
}

// hasCode reports whether err is an SQLite error of that code, or of that primary code.
func hasCode(err error, codes ...int) bool {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return false
	}
	for _, code := range codes {
		if failure.Code() == code || failure.Code()&0xff == code {
			return true
		}
	}
	return false
}

// isOwn reports whether err is about one call, and not about the file.
func isOwn(err error) bool {
	return errors.Is(err, store.ErrForeign) || errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrUnknownToken)
}

// translate turns an error of the file into one of package store. committing: the error came during the commit. ctx
// is the caller's.
func (s *Store) translate(ctx context.Context, err error, committing bool) error {
	isBusy := hasCode(err, sqlite3.SQLITE_BUSY)
	isLate := isBusy || hasCode(err, sqlite3.SQLITE_INTERRUPT) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
	kind, wrong := store.ErrRefused, ""
	switch {
	case err == nil, isOwn(err), errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrGaveUp), store.IsAway(err):
		return err // it is already one of package store
	case committing && (isLate && !isBusy || hasCode(err, sqlite3.SQLITE_IOERR)):
		kind = store.ErrOutcomeUnknown
	case isLate:
		return s.late(ctx)
	case hasCode(err, sqlite3.SQLITE_NOTADB):
		kind, wrong = store.ErrForeign, " is not a limits file (it is not an SQLite database); it was left as it is"
	case hasCode(err, sqlite3.SQLITE_CANTOPEN):
		wrong = " cannot be opened; is its directory there and writable?"
	case hasCode(err, sqlite3.SQLITE_READONLY):
		wrong = " is not writable"
	case hasCode(err, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE):
		wrong = " cannot grow; is its disk full?"
	}
	if path, is := errors.AsType[*fs.PathError](err); is && path.Path == s.path {
		err = path.Err
	}
	return fmt.Errorf("%w: file %s%s: %w", kind, s.path, wrong, err)
}
