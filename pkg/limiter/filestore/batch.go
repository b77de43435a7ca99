package filestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// batch is the work of one transaction. It reads and writes each key once, however many jobs use it.
type batch struct {
	*connection // nil in a missing file, where all keys are unused
	prefix      string
	now         store.Instant // when the lock was taken, perhaps long after the call
	rows        []*row
	byKey       map[store.Key]*row // nil for few rows
	wrote       bool               // it wrote something other than rows
}

// row is a key in a batch.
type row struct {
	key     store.Key
	id      int64         // SQLite's number of the row, 0 for a new one
	until   store.Instant // when it may be reclaimed, according to the file
	state   store.State
	changed bool
}

// fewRows is the number of rows from which a map finds them.
const fewRows = 8

// load returns the row of key, as earlier jobs have left it. The error is a [store.ErrForeign] if the row holds
// something else.
func (b *batch) load(key store.Key) (*row, error) {
	if b.byKey != nil {
		if r := b.byKey[key]; r != nil {
			return r, nil
		}
	} else {
		for _, r := range b.rows {
			if r.key == key {
				return r, nil
			}
		}
	}
	r := &row{key: key}
	if b.connection != nil {
		if err := b.find(b.prefix, r); err != nil {
			return nil, err
		}
	}
	if b.rows = append(b.rows, r); len(b.rows) == fewRows {
		b.byKey = make(map[store.Key]*row)
		for _, r := range b.rows {
			b.byKey[r.key] = r
		}
	} else if b.byKey != nil {
		b.byKey[key] = r
	}
	return r, nil
}

// store writes the changes. It reports whether there are any.
func (b *batch) store() (isChanged bool, err error) {
	isChanged = b.wrote
	fresh := int64(0)
	for _, r := range b.rows {
		if !r.changed {
			continue
		}
		isChanged = true
		switch {
		case !r.state.IsZero() && r.id == 0:
			fresh++
			err = b.insertRow(b.prefix, r, b.now)
		case !r.state.IsZero():
			err = b.updateRow(r, b.now)
		case r.id != 0:
			err = b.deleteRow(r)
		}
		if err != nil {
			return isChanged, err
		}
	}
	if fresh > 0 {
		err = b.reclaim(b.now, fresh*reclaimed)
	}
	if isChanged && err == nil {
		err = b.tidy(b.now)
	}
	return isChanged, err
}

// decide answers one call, all or nothing, at the instant of the batch.
func (b *batch) decide(op store.Op, reqs []store.Request, decisions []store.Decision) error {
	rows, states := make([]*row, len(reqs)), make([]*store.State, len(reqs))
	for i := range reqs {
		r, err := b.load(reqs[i].Key)
		if err != nil {
			return err
		}
		rows[i], states[i] = r, &r.state
	}
	var changed bool
	var err error
	if store.IsCharging(op, reqs) {
		changed, err = b.decideCharging(op, reqs, states, decisions)
	} else {
		changed = store.Decide(op, reqs, states, decisions, b.now)
	}
	if changed {
		for _, r := range rows {
			r.changed = true
		}
	}
	return err
}

// reclaimed is the number of expired keys to delete for each new key. It is above one, so that expired keys cannot
// pile up.
const reclaimed = 4

// statement is a prepared statement of the driver.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// connection is the writer's connection, with prepared statements. It bypasses database/sql, which would take as long
// as SQLite itself. It is not safe for concurrent use.
type connection struct {
	db   *sql.DB
	conn *sql.Conn

	beginning, committing, rollingBack                            statement
	finding, inserting, updating, extending, deleting, reclaiming statement
	countingFree, shrinking                                       statement

	tidied time.Time // when tidy last did something

	raw       any  // the driver's connection
	hasTokens bool // the table of tokens exists

	record []byte // reused
	args   [5]driver.NamedValue
	found  [3]driver.Value
}

// newConnection prepares the statements on the only connection of db. It closes db if it fails.
func newConnection(ctx context.Context, db *sql.DB) (*connection, error) {
	c := &connection{db: db}
	err := c.prepare(ctx)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	for i := range c.args {
		c.args[i].Ordinal = i + 1
	}
	return c, nil
}

func (c *connection) prepare(ctx context.Context) (err error) {
	if c.conn, err = c.db.Conn(ctx); err != nil {
		return err
	}
	return c.conn.Raw(func(raw any) error {
		c.raw = raw
		for _, s := range []struct {
			to   *statement
			text string
		}{
			{&c.beginning, "BEGIN IMMEDIATE"}, // so that nothing changes between reading and writing
			{&c.committing, "COMMIT"},
			{&c.rollingBack, "ROLLBACK"},
			{&c.finding, findRow},
			{&c.inserting, "INSERT INTO limits (prefix, subject, name, record, unused_at) VALUES (?, ?, ?, ?, ?)"},
			{&c.updating, "UPDATE limits SET record = ? WHERE rowid = ?"},
			{&c.extending, "UPDATE limits SET record = ?, unused_at = ? WHERE rowid = ?"},
			{&c.deleting, "DELETE FROM limits WHERE rowid = ?"},
			{&c.countingFree, countFree},
			{&c.shrinking, shrink},
			{&c.reclaiming, "DELETE FROM limits WHERE rowid IN (SELECT rowid FROM limits WHERE unused_at <= ?+0 ORDER BY " +
				"unused_at LIMIT ?)"},
		} {
			prepared, err := raw.(driver.ConnPrepareContext).PrepareContext(ctx, s.text)
			if err != nil {
				return err
			}
			*s.to = prepared.(statement)
		}
		return nil
	})
}

// use calls do, and keeps the connection for it. The methods below are for do.
func (c *connection) use(do func() error) error {
	return c.conn.Raw(func(any) error { return do() })
}

func (c *connection) close() error {
	var errs []error
	if c.conn != nil {
		errs = append(errs, c.conn.Raw(func(any) error {
			for _, s := range []statement{c.beginning, c.committing, c.rollingBack, c.finding, c.inserting, c.updating,
				c.extending, c.deleting, c.reclaiming, c.countingFree, c.shrinking} {
				if s != nil {
					errs = append(errs, s.Close())
				}
			}
			return nil
		}), c.conn.Close())
	}
	return errors.Join(append(errs, c.db.Close())...)
}

func (c *connection) begin() error  { return c.exec(c.beginning) }
func (c *connection) commit() error { return c.exec(c.committing) }

// rollback ends the transaction. It ignores the error: after some errors SQLite has already rolled back by itself.
func (c *connection) rollback() {
	_ = c.exec(c.rollingBack)
	c.hasTokens = false
}

func (c *connection) exec(s statement, values ...driver.Value) error {
	_, err := s.ExecContext(context.Background(), c.named(values))
	return err
}

func (c *connection) named(values []driver.Value) []driver.NamedValue {
	for i, value := range values {
		c.args[i].Value = value
	}
	return c.args[:len(values)]
}

// find reads the row of r's key.
func (c *connection) find(prefix string, r *row) error {
	rows, err := c.finding.QueryContext(context.Background(), c.named([]driver.Value{prefix, r.key.Subject, r.key.Name}))
	if err != nil {
		return err
	}
	defer rows.Close()
	found, err := firstRow(rows, c.found[:])
	if err != nil || found == nil {
		return err
	}
	r.id, _ = found[0].(int64)
	until, _ := found[1].(int64)
	record, _ := found[2].([]byte)
	r.until = store.Instant(until)
	return decode(prefix, r.key, &r.state, record)
}

// firstRow reads the first of rows into room. It returns nil if there are no rows.
func firstRow(rows driver.Rows, room []driver.Value) ([]driver.Value, error) {
	switch err := rows.Next(room); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return room, nil
}

// findRow finds one key.
var findRow = "SELECT rowid, unused_at, " + boundedRecord + " FROM limits WHERE prefix = ? AND subject = ? AND name = ?"

// boundedRecord selects the record of a row, or NULL without reading it if it is longer than any record.
var boundedRecord = fmt.Sprintf("CASE WHEN octet_length(record) <= %d THEN record END", store.MaxRecordSize)

const longerThanAny = "more bytes than any record has"

func decode(prefix string, key store.Key, state *store.State, record []byte) error {
	holds := longerThanAny
	if record != nil {
		err := state.DecodeRecord(record)
		if err == nil {
			return nil
		}
		holds = err.Error()
	}
	return &store.ForeignError{StoreKey: admin.OwnLayout(prefix).StoreKey(key), Holds: holds}
}

func (c *connection) insertRow(prefix string, r *row, now store.Instant) error {
	c.record = r.state.AppendRecord(c.record[:0])
	return c.exec(c.inserting, prefix, r.key.Subject, r.key.Name, c.record, int64(reclaimableAt(&r.state, now)))
}

func (c *connection) updateRow(r *row, now store.Instant) error {
	c.record = r.state.AppendRecord(c.record[:0])
	if until := reclaimableAt(&r.state, now); until != r.until {
		return c.exec(c.extending, c.record, int64(until), r.id)
	}
	return c.exec(c.updating, c.record, r.id)
}

// mostGrace is the longest time that an unused key stays in the file.
const mostGrace = time.Hour

// reclaimableAt returns the instant from which a key in the state s may be reclaimed: when it is unused, or up to a
// quarter of its period later. So most charges do not change the instant. It is in an index, and a change writes two
// more pages.
func reclaimableAt(s *store.State, now store.Instant) store.Instant {
	grace := store.Instant(min(s.Limit.Period/4, mostGrace) / time.Microsecond)
	unused := s.UnusedAt(now)
	return unused + (grace - unused%grace)
}

func (c *connection) deleteRow(r *row) error { return c.exec(c.deleting, r.id) }

func (c *connection) reclaim(now store.Instant, most int64) error {
	return c.exec(c.reclaiming, int64(now), most)
}
