package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/internal/denialtable"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.DenialTable = (*Store)(nil)

// denialTable has a row for each key that was denied in a step. The row without subject and name counts the denials
// of all other keys together; its last_at is 1 if some denials are counted nowhere, and otherwise 0.
var denialTable = sideTable{name: "denial_steps", of: "denials", create: `CREATE TABLE IF NOT EXISTS denial_steps (
	prefix   TEXT    NOT NULL,
	length   INTEGER NOT NULL, -- of the step, in minutes
	number   INTEGER NOT NULL, -- of the step, since the epoch
	subject  TEXT    NOT NULL,
	name     TEXT    NOT NULL,
	count    INTEGER NOT NULL,
	last_at  INTEGER NOT NULL, -- µs since the epoch
	since    INTEGER NOT NULL, -- µs since the epoch
	blocked  INTEGER NOT NULL,
	compared INTEGER NOT NULL,
	allowed  INTEGER NOT NULL,
	limited  TEXT    NOT NULL, -- the limit
	override TEXT    NOT NULL, -- its ID
	PRIMARY KEY (prefix, length, number, subject, name)
) WITHOUT ROWID`}

// letThroughTable has a row for each override that let takes through in a step of denialTable.
var letThroughTable = sideTable{name: "let_through_steps", of: "what overrides let through",
	create: `CREATE TABLE IF NOT EXISTS let_through_steps (
	prefix   TEXT    NOT NULL,
	length   INTEGER NOT NULL, -- of the step, in minutes
	number   INTEGER NOT NULL, -- of the step, since the epoch
	override TEXT    NOT NULL, -- its ID
	count    INTEGER NOT NULL,
	PRIMARY KEY (prefix, length, number, override)
) WITHOUT ROWID`}

// stepMinutes is how the table writes the length of steps.
func stepMinutes(steps denialtable.Steps) int64 { return int64(steps.Length / time.Minute) }

// AddDenials implements [admin.DenialTable] in one transaction.
func (s *Store) AddDenials(ctx context.Context, d admin.Denials) error {
	if err := d.Check(); err != nil {
		return err
	}
	return s.changeTable(ctx, denialTable, func(ctx context.Context, tx *sql.Conn, now store.Instant) error {
		err := errors.Join(s.addDenials(ctx, tx, denialtable.Minutes, &d, now), s.addDenials(ctx, tx, denialtable.Coarse, &d, now))
		if err != nil || len(d.LetThrough) == 0 {
			return err
		}
		if err := letThroughTable.make(ctx, tx); err != nil {
			return err
		}
		return errors.Join(s.addLetThrough(ctx, tx, denialtable.Minutes, d.LetThrough, now),
			s.addLetThrough(ctx, tx, denialtable.Coarse, d.LetThrough, now))
	})
}

// addLetThrough adds to the current step of one length what overrides let through.
func (s *Store) addLetThrough(
	ctx context.Context, tx *sql.Conn, steps denialtable.Steps, added []admin.LetThrough, now store.Instant,
) error {
	length, number := stepMinutes(steps), steps.At(now)
	ended := steps.At(now - store.Instant(steps.History.Microseconds()))
	if _, err := tx.ExecContext(ctx, "DELETE FROM let_through_steps WHERE length = ? AND number < ?", length, ended); err != nil {
		return err
	}
	held, err := s.readLetThrough(ctx, tx, steps, number)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, l := range held {
		known[l.Override] = true
	}
	for _, l := range added {
		if !known[l.Override] && len(known) >= admin.LetThroughKept {
			continue
		}
		known[l.Override] = true
		if _, err := tx.ExecContext(ctx, `INSERT INTO let_through_steps (prefix, length, number, override, count) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (prefix, length, number, override) DO UPDATE SET count = count + excluded.count`,
			s.prefix, length, number, l.Override, l.Count); err != nil {
			return err
		}
	}
	return nil
}

// readLetThrough returns what overrides let through in a step.
func (s *Store) readLetThrough(
	ctx context.Context, tx *sql.Conn, steps denialtable.Steps, number int64,
) (all []admin.LetThrough, err error) {
	found, err := tx.QueryContext(ctx, `SELECT override, count FROM let_through_steps
		WHERE prefix = ? AND length = ? AND number = ? AND octet_length(override) <= ? LIMIT ?`,
		s.prefix, stepMinutes(steps), number, admin.MaxDenialText, admin.LetThroughKept)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var l admin.LetThrough
		if err := found.Scan(&l.Override, &l.Count); err != nil {
			return nil, err
		}
		if l.Check() != nil {
			return nil, &store.ForeignError{StoreKey: s.path, Holds: "a row of what overrides let through that limitctl did not write"}
		}
		all = append(all, l)
	}
	return all, found.Err()
}

// addDenials adds d to the current step of one length, as [denialtable.Merge] does.
func (s *Store) addDenials(ctx context.Context, tx *sql.Conn, steps denialtable.Steps, d *admin.Denials, now store.Instant) error {
	const pause = int64(admin.DenialPause / time.Microsecond)
	length, number := stepMinutes(steps), steps.At(now)
	ended := steps.At(now - store.Instant(steps.History.Microseconds()))
	if _, err := tx.ExecContext(ctx, "DELETE FROM denial_steps WHERE length = ? AND number < ?", length, ended); err != nil {
		return err
	}
	add, err := tx.PrepareContext(ctx, `INSERT INTO denial_steps
		(prefix, length, number, subject, name, count, last_at, since, blocked, compared, allowed, limited, override)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (prefix, length, number, subject, name) DO UPDATE SET
			count = count + excluded.count, last_at = max(last_at, excluded.last_at),
			since = CASE WHEN excluded.since > last_at + `+strconv.FormatInt(pause, 10)+` THEN excluded.since
				WHEN since > excluded.last_at + `+strconv.FormatInt(pause, 10)+` THEN since ELSE min(since, excluded.since) END,
			blocked = blocked + excluded.blocked, compared = compared + excluded.compared, allowed = allowed + excluded.allowed,
			limited = CASE excluded.limited WHEN '' THEN limited ELSE excluded.limited END,
			override = CASE excluded.override WHEN '' THEN override ELSE excluded.override END`)
	if err != nil {
		return err
	}
	defer add.Close()
	for _, row := range d.Rows {
		row = denialtable.ByClock(row, d.Now, now)
		limit := ""
		if row.Limit != (store.Limit{}) {
			limit = row.Limit.String()
		}
		_, err := add.ExecContext(ctx, s.prefix, length, number, row.Key.Subject, row.Key.Name, row.Count, int64(row.LastAt),
			int64(row.Since), row.Blocked, row.Compared, row.Allowed, limit, row.Override)
		if err != nil {
			return err
		}
	}
	if others := d.Others; others > 0 || d.Lost {
		if _, err := add.ExecContext(ctx, s.prefix, length, number, "", "", others, d.Lost, 0, 0, 0, 0, "", ""); err != nil {
			return err
		}
	}
	return s.dropDenials(ctx, tx, steps, number, add)
}

// dropDenials removes the least denied keys of a step, if it has many more rows than are kept.
func (s *Store) dropDenials(ctx context.Context, tx *sql.Conn, steps denialtable.Steps, number int64, add *sql.Stmt) error {
	var rows int
	step := []any{s.prefix, stepMinutes(steps), number}
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM denial_steps WHERE prefix = ? AND length = ? AND number = ?", step...).Scan(&rows)
	if err != nil || rows <= steps.Held() {
		return err
	}
	const surplus = `FROM denial_steps WHERE (prefix, length, number, subject, name) IN (SELECT prefix, length, number, subject, name
		FROM denial_steps WHERE prefix = ? AND length = ? AND number = ? AND subject > ''
		ORDER BY count DESC, last_at DESC LIMIT -1 OFFSET ?)`
	var dropped int64
	beyond := append(step, steps.Kept)
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(sum(count), 0) "+surplus, beyond...).Scan(&dropped); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE "+surplus, beyond...); err != nil {
		return err
	}
	_, err = add.ExecContext(ctx, append(step, "", "", dropped, 0, 0, 0, 0, 0, "", "")...)
	return err
}

// Denials implements [admin.DenialTable].
func (s *Store) Denials(ctx context.Context, last time.Duration) (admin.Denials, error) {
	if err := denialtable.CheckLast(last); err != nil {
		return admin.Denials{}, err
	}
	sum := denialtable.NewSum(store.InstantOf(s.clock()), last)
	err := s.readTable(ctx, denialTable, func(tx *sql.Conn, at store.Instant) error {
		sum = denialtable.NewSum(at, last)
		steps := denialtable.For(last)
		counts, err := letThroughTable.exists(ctx, tx)
		if err != nil {
			return err
		}
		from, to := steps.Touched(at, last)
		for number := from; number <= to; number++ {
			step, err := s.readDenials(ctx, tx, steps, number)
			if err == nil && counts {
				step.LetThrough, err = s.readLetThrough(ctx, tx, steps, number)
			}
			if err != nil {
				return err
			}
			sum.Add(number, step)
		}
		return nil
	})
	return sum.Denials(), err
}

// readDenials returns the denials of a step.
func (s *Store) readDenials(ctx context.Context, tx *sql.Conn, steps denialtable.Steps, number int64) (*admin.Denials, error) {
	found, err := tx.QueryContext(ctx, `SELECT subject, name, count, last_at, since, blocked, compared, allowed, limited, override
		FROM denial_steps WHERE prefix = ? AND length = ? AND number = ? AND octet_length(subject) <= ? AND octet_length(name) <= ?
		AND octet_length(limited) <= ? AND octet_length(override) <= ? LIMIT ?`, s.prefix, stepMinutes(steps), number,
		admin.MaxDenialText, admin.MaxDenialText, admin.MaxDenialText, admin.MaxDenialText, steps.Held()+1)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	step := &admin.Denials{}
	for found.Next() {
		var row admin.Denied
		var limit string
		err := found.Scan(&row.Key.Subject, &row.Key.Name, &row.Count, &row.LastAt, &row.Since, &row.Blocked, &row.Compared, &row.Allowed,
			&limit, &row.Override)
		if err != nil {
			return nil, err
		}
		row.Limit, _ = store.ParseLimit(limit) // one of a newer limitctl is not known
		switch {
		case row.Key.Subject == "":
			step.Others, step.Lost = row.Count, row.LastAt != 0
		case row.Count < 0 || row.Blocked < 0 || row.Blocked > row.Count || row.Compared < 0 || row.Compared > row.Count ||
			row.Allowed < 0 || row.Key.Name == "" || row.Key.Validate() != nil:
			return nil, &store.ForeignError{StoreKey: s.path,
				Holds: fmt.Sprintf("a row of denials of %s that limitctl did not write", row.Key)}
		default:
			step.Rows = append(step.Rows, row)
		}
	}
	return step, found.Err()
}
