package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// transaction is the work of one call. It reads and writes each key once.
type transaction struct {
	*connection // nil in a missing file, where all keys are unused
	ctx         context.Context
	prefix      string
	now         store.Instant // when the lock was taken, perhaps long after the call
	rows        map[store.Key]*row
}

// row is a key in a transaction.
type row struct {
	key     store.Key
	id      int64         // SQLite's number of the row, 0 for a new one
	until   store.Instant // when it may be reclaimed, according to the file
	state   store.State
	changed bool
}

// transaction returns one that begins now. A reader's ends with ctx.
func (s *Store) transaction(ctx context.Context, c *connection) *transaction {
	return &transaction{connection: c, ctx: ctx, prefix: s.prefix, now: store.InstantOf(s.clock()),
		rows: map[store.Key]*row{}}
}

// query runs a statement, which stays prepared, and returns its rows.
func (t *transaction) query(text string, args ...any) (*sql.Rows, error) {
	prepared, err := t.statement(text)
	if err != nil {
		return nil, err
	}
	return prepared.QueryContext(t.ctx, args...)
}

// row is query for the first row.
func (t *transaction) row(text string, args ...any) *sql.Row {
	return t.conn.QueryRowContext(t.ctx, text, args...)
}

// read calls do in a transaction that only reads, so that do sees one instant. It waits for no writer.
func (s *Store) read(ctx context.Context, do func(t *transaction) error) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	if err := s.takeTurn(ctx, &s.reader); err != nil {
		return err
	}
	defer s.reader.giveTurn()
	err := s.open(ctx, &s.reader, false)
	if errors.Is(err, errMissing) {
		return do(s.transaction(ctx, nil))
	}
	if err == nil {
		err = s.retryBusy(ctx, func() error {
			if err := s.reader.exec("BEGIN"); err != nil {
				return err
			}
			defer func() { _ = s.reader.exec("ROLLBACK") }()
			return do(s.transaction(ctx, &s.reader))
		})
	}
	return s.translate(ctx, err, false)
}

// write calls do in a transaction that has the file's lock for writing, so that nothing changes between reading and
// writing. It creates a missing file if creates is set.
//
// Only the waits for the lock end with ctx. What has begun is finished: it is short, and its outcome is known then.
func (s *Store) write(ctx context.Context, creates bool, do func(t *transaction) error) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	if err := s.takeTurn(ctx, &s.writer); err != nil {
		return err
	}
	defer s.writer.giveTurn()
	err := s.open(ctx, &s.writer, creates)
	if errors.Is(err, errMissing) {
		return do(s.transaction(ctx, nil))
	}
	if err == nil {
		err = s.retryBusy(ctx, func() error { return s.writer.exec("BEGIN IMMEDIATE") })
	}
	if err != nil {
		return s.translate(ctx, err, false)
	}
	committing, done := false, false
	err = panics.Call(func() error {
		t := s.transaction(context.Background(), &s.writer)
		err := do(t)
		if err == nil {
			err = t.flush()
		}
		if err == nil {
			committing = true
			err = s.writer.exec("COMMIT")
			done = err == nil
		}
		return err
	})
	if !done { // after some errors SQLite has already rolled back by itself
		_ = s.writer.exec("ROLLBACK")
	}
	return s.translate(ctx, err, committing)
}

// decide answers one call, all or nothing, and keeps what its token remembers.
func (t *transaction) decide(op store.Op, reqs []store.Request, decisions []store.Decision) error {
	rows, states := make([]*row, len(reqs)), make([]*store.State, len(reqs))
	for i := range reqs {
		r, err := t.load(reqs[i].Key)
		if err != nil {
			return err
		}
		rows[i], states[i] = r, &r.state
	}
	record, err := t.loadToken(reqs[0].Token)
	if err != nil {
		return err
	}
	changes, err := store.Decide(op, reqs, states, decisions, &record, t.now)
	for _, r := range rows {
		r.changed = r.changed || changes.States
	}
	if err == nil && changes.Token {
		err = t.saveToken(reqs[0].Token, &record)
	}
	return err
}

// boundedRecord selects the record of a row, or NULL without reading it if it is longer than any record.
var boundedRecord = fmt.Sprintf("CASE WHEN octet_length(record) <= %d THEN record END", store.MaxRecordSize)

// findRow finds one key.
var findRow = "SELECT rowid, unused_at, " + boundedRecord + " FROM limits WHERE prefix = ? AND subject = ? AND name = ?"

const (
	insertRow = "INSERT INTO limits (prefix, subject, name, record, unused_at) VALUES (?, ?, ?, ?, ?)"
	updateRow = "UPDATE limits SET record = ? WHERE rowid = ?"
	extendRow = "UPDATE limits SET record = ?, unused_at = ? WHERE rowid = ?"
	deleteRow = "DELETE FROM limits WHERE rowid = ?"
	reclaim   = "DELETE FROM limits WHERE rowid IN (SELECT rowid FROM limits WHERE unused_at <= ?+0 ORDER BY " +
		"unused_at LIMIT ?)"

	// reclaimed is the number of expired keys to delete for each new key. It is above one, so that expired keys cannot
	// pile up.
	reclaimed = 4
	// mostGrace is the longest time that an unused key stays in the file.
	mostGrace = time.Hour
)

// load returns the row of key. The error is a [store.ErrForeign] if the row holds something else.
func (t *transaction) load(key store.Key) (*row, error) {
	if r := t.rows[key]; r != nil {
		return r, nil
	}
	r := &row{key: key}
	if t.connection == nil {
		return r, nil
	}
	found, err := t.statement(findRow)
	if err != nil {
		return nil, err
	}
	var record []byte
	err = found.QueryRowContext(t.ctx, t.prefix, key.Subject, key.Name).Scan(&r.id, &r.until, &record)
	if err == nil {
		err = decode(t.prefix, key, &r.state, record)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	t.rows[key] = r
	return r, nil
}

func decode(prefix string, key store.Key, state *store.State, record []byte) error {
	holds := "more bytes than any record has"
	if record != nil {
		err := state.DecodeRecord(record)
		if err == nil {
			return nil
		}
		holds = err.Error()
	}
	return &store.ForeignError{StoreKey: admin.OwnLayout(prefix).StoreKey(key), Holds: holds}
}

// flush writes the rows that changed, and then deletes some expired ones: one of those can be among the rows.
func (t *transaction) flush() error {
	fresh := 0
	for _, r := range t.rows {
		if !r.changed {
			continue
		}
		if err := t.save(r); err != nil {
			return err
		}
		if r.id == 0 {
			fresh++
		}
	}
	if fresh == 0 {
		return nil
	}
	return t.exec(reclaim, int64(t.now), fresh*reclaimed)
}

func (t *transaction) save(r *row) error {
	if r.state.IsZero() { // there is no row 0
		return t.exec(deleteRow, r.id)
	}
	record, until := r.state.AppendRecord(nil), reclaimableAt(&r.state, t.now)
	switch {
	case r.id == 0:
		return t.exec(insertRow, t.prefix, r.key.Subject, r.key.Name, record, int64(until))
	case until != r.until:
		return t.exec(extendRow, record, int64(until), r.id)
	}
	return t.exec(updateRow, record, r.id)
}

// reclaimableAt returns the instant from which a key in the state s may be reclaimed: when it is unused, or up to a
// quarter of its period later. So most charges do not change the instant. It is in an index, and a change writes two
// more pages.
func reclaimableAt(s *store.State, now store.Instant) store.Instant {
	grace := store.Instant(min(s.Limit.Period/4, mostGrace) / time.Microsecond)
	unused := s.UnusedAt(now)
	return unused + (grace - unused%grace)
}
