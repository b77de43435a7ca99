package filestore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/denialtable"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.DenialTable = (*Store)(nil)

// denialTable has a row for each key that was denied in a minute. The row without subject and name counts the denials
// of all other keys together; its last_at is 1 if some denials are counted nowhere, and otherwise 0. Older versions
// know only this table.
var denialTable = sideTable{name: "denials", of: "denials", create: `CREATE TABLE IF NOT EXISTS denials (
	prefix  TEXT    NOT NULL,
	minute  INTEGER NOT NULL, -- since the epoch
	subject TEXT    NOT NULL,
	name    TEXT    NOT NULL,
	count   INTEGER NOT NULL,
	last_at INTEGER NOT NULL, -- µs since the epoch
	PRIMARY KEY (prefix, minute, subject, name)
) WITHOUT ROWID`}

// denialPartTable has the rows of hours, and more about the rows of minutes that denialTable has.
var denialPartTable = sideTable{name: "denial_parts", of: "denials of hours", create: `CREATE TABLE IF NOT EXISTS denial_parts (
	prefix   TEXT    NOT NULL,
	step     INTEGER NOT NULL, -- in seconds: that of a minute or an hour
	number   INTEGER NOT NULL, -- of the step since the epoch
	subject  TEXT    NOT NULL,
	name     TEXT    NOT NULL,
	count    INTEGER NOT NULL,
	last_at  INTEGER NOT NULL, -- µs since the epoch
	since    INTEGER NOT NULL, -- µs since the epoch
	blocked  INTEGER NOT NULL,
	compared INTEGER NOT NULL,
	passed   INTEGER NOT NULL,
	applied  TEXT    NOT NULL, -- the limit
	override TEXT    NOT NULL, -- its ID
	PRIMARY KEY (prefix, step, number, subject, name)
) WITHOUT ROWID`}

// AddDenials implements [admin.DenialTable] in one transaction.
func (s *Store) AddDenials(ctx context.Context, d admin.Denials) error {
	if err := d.Check(); err != nil {
		return err
	}
	return s.changeTable(ctx, denialTable, func(ctx context.Context, tx *sql.Tx, now store.Instant) error {
		if err := denialPartTable.make(ctx, tx); err != nil {
			return err
		}
		for _, step := range denialtable.Steps {
			if err := s.addDenials(ctx, tx, denialPart{step, step.Number(now)}, &d, now); err != nil {
				return err
			}
		}
		return nil
	})
}

type denialPart struct {
	step   denialtable.Step
	number int64
}

func (p denialPart) seconds() int64 { return int64(time.Duration(p.step) / time.Second) }

const (
	addMinute = `INSERT INTO denials (prefix, minute, subject, name, count, last_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (prefix, minute, subject, name) DO UPDATE SET count = count + excluded.count, last_at = max(last_at, excluded.last_at)`
	// addPart does what [denialtable.Merge] does. Its last value is [denialtable.Quiet].
	addPart = `INSERT INTO denial_parts (prefix, step, number, subject, name, count, last_at, since, blocked, compared, passed,
		applied, override) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
		ON CONFLICT (prefix, step, number, subject, name) DO UPDATE SET
		since = CASE WHEN excluded.since > last_at + ?14 THEN excluded.since WHEN since > excluded.last_at + ?14 THEN since
			ELSE min(since, excluded.since) END,
		applied = CASE WHEN excluded.last_at >= last_at AND excluded.applied > '' THEN excluded.applied ELSE applied END,
		override = CASE WHEN excluded.last_at >= last_at AND excluded.applied > '' THEN excluded.override ELSE override END,
		count = count + excluded.count, last_at = max(last_at, excluded.last_at), blocked = blocked + excluded.blocked,
		compared = compared + excluded.compared, passed = passed + excluded.passed`
	// letThrough is for a row without denials.
	letThrough = `UPDATE denial_parts SET passed = passed + ?1 WHERE prefix = ?2 AND step = ?3 AND number = ?4 AND subject = ?5 AND name = ?6`
)

// addDenials adds d to one part.
func (s *Store) addDenials(ctx context.Context, tx *sql.Tx, part denialPart, d *admin.Denials, now store.Instant) error {
	oldest := part.number - int64(part.step.Kept()/time.Duration(part.step))
	if part.step == denialtable.Minute {
		if _, err := tx.ExecContext(ctx, "DELETE FROM denials WHERE minute < ?", oldest); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM denial_parts WHERE step = ? AND number < ?", part.seconds(), oldest); err != nil {
		return err
	}
	add := func(row admin.Denied) error {
		row = denialtable.AtClock(row, d.Now, now)
		if row.Count == 0 {
			_, err := tx.ExecContext(ctx, letThrough, row.Passed, s.prefix, part.seconds(), part.number, row.Key.Subject, row.Key.Name)
			return err
		}
		if part.step == denialtable.Minute {
			if _, err := tx.ExecContext(ctx, addMinute, s.prefix, part.number, row.Key.Subject, row.Key.Name, row.Count, int64(row.LastAt)); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, addPart, s.prefix, part.seconds(), part.number, row.Key.Subject, row.Key.Name, row.Count, int64(row.LastAt),
			int64(row.Since), row.Blocked, row.Compared, row.Passed, row.Limit, row.Override, int64(denialtable.Quiet))
		return err
	}
	for _, row := range d.Rows {
		if err := add(row); err != nil {
			return err
		}
	}
	if d.Others > 0 || d.Lost {
		if err := s.addOthers(ctx, tx, part, d.Others, d.Lost); err != nil {
			return err
		}
	}
	return s.dropDenials(ctx, tx, part)
}

// addOthers counts denials of keys without a row.
func (s *Store) addOthers(ctx context.Context, tx *sql.Tx, part denialPart, others int64, lost bool) error {
	if part.step == denialtable.Minute {
		_, err := tx.ExecContext(ctx, addMinute, s.prefix, part.number, "", "", others, lost)
		return err
	}
	_, err := tx.ExecContext(ctx, addPart, s.prefix, part.seconds(), part.number, "", "", others, lost, 0, 0, 0, 0, "", "", 0)
	return err
}

// dropDenials removes the least denied keys of a part, if it has many more rows than are kept.
func (s *Store) dropDenials(ctx context.Context, tx *sql.Tx, part denialPart) error {
	rowsOf := fmt.Sprintf("denial_parts WHERE prefix = ? AND step = %d AND number = ? AND subject > ''", part.seconds())
	if part.step == denialtable.Minute {
		rowsOf = "denials WHERE prefix = ? AND minute = ? AND subject > ''"
	}
	var rows int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+rowsOf, s.prefix, part.number).Scan(&rows)
	if err != nil || rows <= denialtable.MostHeld {
		return err
	}
	surplus := " AND (subject, name) IN (SELECT subject, name FROM " + rowsOf + " ORDER BY count DESC, last_at DESC LIMIT -1 OFFSET ?)"
	which := []any{s.prefix, part.number, s.prefix, part.number, admin.DenialsKept}
	var dropped int64
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(sum(count), 0) FROM "+rowsOf+surplus, which...).Scan(&dropped); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+rowsOf+surplus, which...); err != nil {
		return err
	}
	if part.step == denialtable.Minute { // what more is known about rows that are gone
		_, err := tx.ExecContext(ctx, `DELETE FROM denial_parts WHERE prefix = ?1 AND step = ?2 AND number = ?3 AND (subject, name) NOT IN
			(SELECT subject, name FROM denials WHERE prefix = ?1 AND minute = ?3)`, s.prefix, part.seconds(), part.number)
		if err != nil {
			return err
		}
	}
	return s.addOthers(ctx, tx, part, dropped, false)
}

// Denials implements [admin.DenialTable].
func (s *Store) Denials(ctx context.Context, last time.Duration) (admin.Denials, error) {
	if err := denialtable.CheckLast(last); err != nil {
		return admin.Denials{}, err
	}
	denials := admin.Denials{Now: store.InstantOf(s.clock())}
	err := s.readTable(ctx, denialTable, func(tx *sql.Tx, at store.Instant) error {
		hasParts, err := denialPartTable.exists(ctx, tx)
		if err != nil {
			return err
		}
		denials, err = denialtable.Read(at, last, func(step denialtable.Step, from, to int64, add func(int64, denialtable.Part)) error {
			for number := from; number <= to && (hasParts || step == denialtable.Minute); number++ {
				part, err := s.readPart(ctx, tx, denialPart{step, number}, hasParts)
				if err != nil {
					return err
				}
				add(number, part)
			}
			return nil
		})
		return err
	})
	return denials, err
}

const (
	readOld = `SELECT subject, name, count, last_at, 0, 0, 0, 0, '', '' FROM denials WHERE prefix = ?1 AND minute = ?3 AND ?2 > 0
		AND octet_length(subject) <= ?4 AND octet_length(name) <= ?4 LIMIT ?5`
	readMinute = `SELECT d.subject, d.name, d.count, d.last_at, coalesce(since, 0), coalesce(blocked, 0), coalesce(compared, 0),
		coalesce(passed, 0), coalesce(applied, ''), coalesce(override, '') FROM denials d LEFT JOIN denial_parts p
		ON p.prefix = d.prefix AND p.step = ?2 AND p.number = d.minute AND p.subject = d.subject AND p.name = d.name
		WHERE d.prefix = ?1 AND d.minute = ?3 AND octet_length(d.subject) <= ?4 AND octet_length(d.name) <= ?4 LIMIT ?5`
	readHour = `SELECT subject, name, count, last_at, since, blocked, compared, passed, applied, override FROM denial_parts
		WHERE prefix = ?1 AND step = ?2 AND number = ?3 AND octet_length(subject) <= ?4 AND octet_length(name) <= ?4 LIMIT ?5`
)

// readPart reads a part. There may be none.
func (s *Store) readPart(ctx context.Context, tx *sql.Tx, part denialPart, hasParts bool) (read denialtable.Part, err error) {
	query := readHour
	if part.step == denialtable.Minute {
		query = readMinute
		if !hasParts {
			query = readOld
		}
	}
	found, err := tx.QueryContext(ctx, query, s.prefix, part.seconds(), part.number, admin.MaxDenialText, denialtable.MostHeld+1)
	if err != nil {
		return read, err
	}
	defer found.Close()
	for found.Next() {
		var row admin.Denied
		if err := found.Scan(&row.Key.Subject, &row.Key.Name, &row.Count, &row.LastAt, &row.Since, &row.Blocked, &row.Compared, &row.Passed,
			&row.Limit, &row.Override); err != nil {
			return read, err
		}
		switch {
		case row.Key.Subject == "":
			read.Others, read.Lost = row.Count, row.LastAt != 0
		case row.Key.Name == "" || !denialtable.IsSound(&row):
			return read, &store.ForeignError{StoreKey: s.path, Holds: fmt.Sprintf("a row of denials of %s that limitctl did not write", row.Key)}
		default:
			read.Rows = append(read.Rows, row)
		}
	}
	return read, found.Err()
}
