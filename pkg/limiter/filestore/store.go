// Package filestore keeps limits in one SQLite file: for one machine, with no
// server. Any number of processes can use the file at once, and a process that
// is killed in the middle leaves nothing half done.
//
// Checking needs the right to write the file, too: SQLite keeps its readers' marks
// beside it.
//
// A commit survives the end of its process. The last ones before a power failure
// may be lost, which forgets what they charged and damages nothing.
package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the "sqlite" driver

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Store is a [limiter.Store] and a [limiter.Keyspace] in a file.
type Store struct {
	path   string
	prefix string
	clock  func() time.Time

	turn chan struct{} // holds a token while a call is at work: one at a time, as SQLite has it
	db   *sql.DB       // nil until the file is needed; whoever has the turn may use it
}

// An Option changes how a Store is made.
type Option func(*Store)

// WithClock decides by clock instead of the machine's time.
func WithClock(clock func() time.Time) Option { return func(s *Store) { s.clock = clock } }

// WithPrefix keeps the limits under prefix instead of [limiter.DefaultPrefix],
// apart from those of other prefixes in the same file.
func WithPrefix(prefix string) Option { return func(s *Store) { s.prefix = prefix } }

// New returns a Store in the file at path. The file and its directory are made
// by the first take. It fails with a [limiter.ErrInvalid] on an empty path or an
// unfit prefix.
func New(path string, options ...Option) (*Store, error) {
	if path == "" {
		return nil, fmt.Errorf("%w: the file store needs a path, such as file:limits.db", limiter.ErrInvalid)
	}
	s := &Store{path: path, prefix: limiter.DefaultPrefix, clock: time.Now, turn: make(chan struct{}, 1)}
	for _, option := range options {
		option(s)
	}
	return s, limiter.ValidatePrefix(s.prefix)
}

// Close closes the file.
func (s *Store) Close() error {
	s.turn <- struct{}{}
	defer s.giveTurn()
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db = nil
	return err
}

const (
	// applicationID marks an SQLite file as limitctl's in its header ("rlim").
	applicationID = 0x726c696d
	schemaVersion = 1

	schema = `
CREATE TABLE IF NOT EXISTS limits (
	prefix    TEXT    NOT NULL,
	subject   TEXT    NOT NULL,
	name      TEXT    NOT NULL,
	record    BLOB    NOT NULL,
	unused_at INTEGER NOT NULL, -- µs since the epoch
	UNIQUE (prefix, subject, name)
);
CREATE INDEX IF NOT EXISTS limits_unused_at ON limits (unused_at);`
)

// takeTurn waits for the calls before to end, as long as ctx lasts.
func (s *Store) takeTurn(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: file %s is busy: %w", limiter.ErrUnavailable, s.path, ctx.Err())
	}
}

func (s *Store) giveTurn() { <-s.turn }

// errMissing: there is no file yet, so all keys are unused.
var errMissing = errors.New("no file yet")

// open opens the file, and makes it if create is set. It needs the turn.
func (s *Store) open(ctx context.Context, create bool) error {
	if s.db != nil {
		return nil
	}
	if create {
		if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
			return err
		}
	} else if info, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return errMissing // an empty file is a database without anything in it
	}
	db, err := sql.Open("sqlite", dataSource(s.path))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	if err := s.retryBusy(ctx, func() error { return prepare(ctx, db) }); err != nil {
		db.Close()
		return err
	}
	s.db = db
	return nil
}

// dataSource names the file for the driver. Transactions take the write lock
// when they begin, so that what they read is still so when they write.
func dataSource(path string) string {
	options := url.Values{"_txlock": {"immediate"}}
	options.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()))
	options.Add("_pragma", "synchronous(normal)")
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + options.Encode()
}

// prepare makes the schema in a new file, and refuses somebody else's.
func prepare(ctx context.Context, db *sql.DB) error {
	var id, version, objects int
	err := db.QueryRowContext(ctx,
		`SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)`,
	).Scan(&id, &version, &objects)
	switch {
	case err != nil:
		return err
	case id == applicationID && version == schemaVersion:
		return nil
	case id == applicationID:
		return fmt.Errorf("it has format version %d, which this limitctl does not know", version)
	case id != 0 || objects > 0:
		return errors.New("it is another program's database")
	}
	// Readers and a writer side by side. It is a property of the file, set
	// outside a transaction.
	if _, err := db.ExecContext(ctx, "PRAGMA journal_mode = wal"); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d", schema, applicationID, schemaVersion)); err != nil {
		return err
	}
	return tx.Commit()
}

// Decide implements [limiter.Store] in one transaction.
func (s *Store) Decide(ctx context.Context, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
	normalized, err := limiter.NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.giveTurn()
	err = s.open(ctx, op == limiter.Take || op == limiter.Adjust)
	if errors.Is(err, errMissing) {
		limiter.Decide(op, normalized, unusedStates(len(normalized)), decisions, limiter.InstantOf(s.clock()))
		return nil
	}
	committing := false
	if err == nil {
		err = s.retryBusy(ctx, func() error {
			committing = false
			// A peek's transaction takes no write lock; it is there so that
			// several keys are read at one instant.
			tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: op == limiter.Peek})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := s.decide(ctx, tx, op, normalized, decisions); err != nil || op == limiter.Peek {
				return err
			}
			committing = true
			return tx.Commit()
		})
	}
	return s.translate(err, committing)
}

func unusedStates(n int) []*limiter.State {
	states := make([]*limiter.State, n)
	for i := range states {
		states[i] = new(limiter.State)
	}
	return states
}

func (s *Store) decide(ctx context.Context, tx *sql.Tx, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
	states := unusedStates(len(reqs))
	for i := range reqs {
		if err := s.load(ctx, tx, reqs[i].Key, states[i]); err != nil {
			return err
		}
	}
	// The lock may have been long in coming: now is when it is held.
	now := limiter.InstantOf(s.clock())
	isNew := make([]bool, len(reqs))
	for i := range states {
		isNew[i] = states[i].IsZero()
	}
	if !limiter.Decide(op, reqs, states, decisions, now) {
		return nil
	}
	for i := range reqs {
		if err := s.save(ctx, tx, reqs[i].Key, states[i], now); err != nil {
			return err
		}
		if isNew[i] {
			if err := reclaim(ctx, tx, now); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) load(ctx context.Context, tx *sql.Tx, key limiter.Key, state *limiter.State) error {
	var record []byte
	err := tx.QueryRowContext(ctx, "SELECT record FROM limits WHERE prefix = ? AND subject = ? AND name = ?",
		s.prefix, key.Subject, key.Name).Scan(&record)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := state.DecodeRecord(record); err != nil {
		return &limiter.ForeignError{StoreKey: limiter.StoreKey(s.prefix, key), Holds: err.Error()}
	}
	return nil
}

func (s *Store) save(ctx context.Context, tx *sql.Tx, key limiter.Key, state *limiter.State, now limiter.Instant) error {
	if state.IsZero() {
		_, err := tx.ExecContext(ctx, "DELETE FROM limits WHERE prefix = ? AND subject = ? AND name = ?",
			s.prefix, key.Subject, key.Name)
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO limits (prefix, subject, name, record, unused_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (prefix, subject, name) DO UPDATE SET record = excluded.record, unused_at = excluded.unused_at`,
		s.prefix, key.Subject, key.Name, state.AppendRecord(nil), int64(state.UnusedAt(now)))
	return err
}

// reclaimed is how many lapsed keys a new one makes room from: more than one, so
// that they cannot pile up.
const reclaimed = 4

func reclaim(ctx context.Context, tx *sql.Tx, now limiter.Instant) error {
	_, err := tx.ExecContext(ctx,
		"DELETE FROM limits WHERE rowid IN (SELECT rowid FROM limits WHERE unused_at <= ? ORDER BY unused_at LIMIT ?)",
		int64(now), reclaimed)
	return err
}
