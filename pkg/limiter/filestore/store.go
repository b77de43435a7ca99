// Package filestore keeps limits in one SQLite file: for one machine, with no
// server. Any number of processes can use the file at once, and a process that
// is killed in the middle leaves nothing half done.
//
// Checking needs the right to write the file, too: SQLite keeps its readers' marks
// in a second file.
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

// Decide implements [limiter.Store] in one transaction.
func (s *Store) Decide(ctx context.Context, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
	normalized, err := limiter.NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	if limiter.IsSpecial(op, normalized) {
		return s.decideSpecial(ctx, op, normalized, decisions)
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
	return s.translate(ctx, err, committing)
}

func unusedStates(n int) []*limiter.State {
	states := make([]*limiter.State, n)
	for i := range states {
		states[i] = new(limiter.State)
	}
	return states
}

func (s *Store) decide(ctx context.Context, tx *sql.Tx, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
	return s.change(ctx, tx, reqs, func(states []*limiter.State, now limiter.Instant) (bool, error) {
		return limiter.Decide(op, reqs, states, decisions, now), nil
	})
}

// change lets decide answer reqs against their states, and saves what it changed.
func (s *Store) change(ctx context.Context, tx *sql.Tx, reqs []limiter.Request,
	decide func(states []*limiter.State, now limiter.Instant) (changed bool, err error)) error {
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
	if changed, err := decide(states, now); err != nil || !changed {
		return err
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
	err := tx.QueryRowContext(ctx, "SELECT "+boundedRecord+" FROM limits WHERE prefix = ? AND subject = ? AND name = ?",
		s.prefix, key.Subject, key.Name).Scan(&record)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := decode(state, record); err != nil {
		return &limiter.ForeignError{StoreKey: limiter.OwnLayout(s.prefix).StoreKey(key), Holds: err.Error()}
	}
	return nil
}

// boundedRecord is the record of a row, or NULL if that is longer than any: it is not
// even read then.
var boundedRecord = fmt.Sprintf("CASE WHEN octet_length(record) <= %d THEN record END", limiter.MaxRecordSize)

func decode(state *limiter.State, record []byte) error {
	if record == nil {
		return errors.New("more bytes than any record has")
	}
	return state.DecodeRecord(record)
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

// reclaimed is how many expired keys are deleted for each new one: more than one, so
// that they cannot pile up.
const reclaimed = 4

func reclaim(ctx context.Context, tx *sql.Tx, now limiter.Instant) error {
	_, err := tx.ExecContext(ctx,
		"DELETE FROM limits WHERE rowid IN (SELECT rowid FROM limits WHERE unused_at <= ? ORDER BY unused_at LIMIT ?)",
		int64(now), reclaimed)
	return err
}
