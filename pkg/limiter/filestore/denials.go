package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// denialTable has a row for each key that was denied in a step. The row without subject and name counts the denials
// of all other keys together; its last_at is 1 if some denials are counted nowhere, and otherwise 0.
var denialTable = sideTable{"denial_steps", `CREATE TABLE IF NOT EXISTS denial_steps (
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
var letThroughTable = sideTable{"let_through_steps", `CREATE TABLE IF NOT EXISTS let_through_steps (
	prefix   TEXT    NOT NULL,
	length   INTEGER NOT NULL, -- of the step, in minutes
	number   INTEGER NOT NULL, -- of the step, since the epoch
	override TEXT    NOT NULL, -- its ID
	count    INTEGER NOT NULL,
	PRIMARY KEY (prefix, length, number, override)
) WITHOUT ROWID`}

// step is a step in a transaction.
type step struct {
	side
	tx     *sql.Conn
	number int64
	place  []any // the prefix, the length in minutes and the number
}

func (s side) step(tx *sql.Conn, steps admin.DenialSteps, number int64) *step {
	return &step{s, tx, number, []any{s.prefix, int64(steps.Length / time.Minute), number}}
}

// args returns the place with more arguments behind it.
func (s *step) args(more ...any) []any { return append(s.place[:3:3], more...) }

// AddCounts implements [admin.SideTable].
func (s side) AddCounts(ctx context.Context, d *admin.Denials) error {
	return s.changeTable(ctx, &denialTable, func(ctx context.Context, tx *sql.Conn, now store.Instant) error {
		if len(d.LetThrough) > 0 {
			if err := letThroughTable.make(ctx, tx); err != nil {
				return err
			}
		}
		for _, steps := range []admin.DenialSteps{admin.FineSteps, admin.CoarseSteps} {
			current := s.step(tx, steps, steps.At(now))
			ended := steps.At(now - store.Instant(steps.History.Microseconds()))
			if err := errors.Join(current.add(ctx, d, now, ended), current.drop(ctx, steps)); err != nil {
				return err
			}
			if err := current.addLetThrough(ctx, d.LetThrough, ended); err != nil {
				return err
			}
		}
		return nil
	})
}

// addRow adds to the count of a key as [admin.MergeDenied] does.
var addRow = fmt.Sprintf(`INSERT INTO denial_steps
	(prefix, length, number, subject, name, count, last_at, since, blocked, compared, allowed, limited, override)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (prefix, length, number, subject, name) DO UPDATE SET
		count = count + excluded.count, last_at = max(last_at, excluded.last_at),
		since = CASE WHEN excluded.since > last_at + %[1]d THEN excluded.since
			WHEN since > excluded.last_at + %[1]d THEN since ELSE min(since, excluded.since) END,
		blocked = blocked + excluded.blocked, compared = compared + excluded.compared, allowed = allowed + excluded.allowed,
		limited = CASE excluded.limited WHEN '' THEN limited ELSE excluded.limited END,
		override = CASE excluded.override WHEN '' THEN override ELSE excluded.override END`, admin.DenialPause.Microseconds())

// add adds the rows of d, and removes the steps before ended.
func (s *step) add(ctx context.Context, d *admin.Denials, now store.Instant, ended int64) error {
	if err := exec(ctx, s.tx, "DELETE FROM denial_steps WHERE length = ? AND number < ?", s.place[1], ended); err != nil {
		return err
	}
	add, err := s.tx.PrepareContext(ctx, addRow)
	if err != nil {
		return err
	}
	defer add.Close()
	for _, row := range d.Rows {
		row = row.ByClock(d.Now, now)
		if _, err := add.ExecContext(ctx, s.args(row.Key.Subject, row.Key.Name, row.Count, int64(row.LastAt), int64(row.Since),
			row.Blocked, row.Compared, row.Allowed, row.LimitText(), row.Override)...); err != nil {
			return err
		}
	}
	if d.Others > 0 || d.Lost {
		_, err = add.ExecContext(ctx, s.args("", "", d.Others, d.Lost, 0, 0, 0, 0, "", "")...)
	}
	return err
}

// drop counts the least denied keys together, if there are many more rows than are kept.
func (s *step) drop(ctx context.Context, steps admin.DenialSteps) error {
	const here = "FROM denial_steps WHERE prefix = ? AND length = ? AND number = ?"
	rows := 0
	if err := s.tx.QueryRowContext(ctx, "SELECT count(*) "+here, s.place...).Scan(&rows); err != nil || rows <= steps.Held() {
		return err
	}
	const surplus = `FROM denial_steps WHERE (prefix, length, number, subject, name) IN
		(SELECT prefix, length, number, subject, name ` + here + " AND subject > '' ORDER BY count DESC, last_at DESC LIMIT -1 OFFSET ?)"
	var dropped int64
	err := s.tx.QueryRowContext(ctx, "SELECT coalesce(sum(count), 0) "+surplus, s.args(steps.Kept)...).Scan(&dropped)
	if err == nil {
		err = exec(ctx, s.tx, "DELETE "+surplus, s.args(steps.Kept)...)
	}
	if err == nil {
		err = exec(ctx, s.tx, addRow, s.args("", "", dropped, 0, 0, 0, 0, 0, "", "")...)
	}
	return err
}

// addLetThrough adds what overrides let through, as long as there is room for them.
func (s *step) addLetThrough(ctx context.Context, added []admin.LetThrough, ended int64) error {
	if len(added) == 0 {
		return nil
	}
	if err := exec(ctx, s.tx, "DELETE FROM let_through_steps WHERE length = ? AND number < ?", s.place[1], ended); err != nil {
		return err
	}
	const here = "FROM let_through_steps WHERE prefix = ?1 AND length = ?2 AND number = ?3"
	for _, l := range added {
		err := exec(ctx, s.tx, `INSERT INTO let_through_steps (prefix, length, number, override, count)
			SELECT ?1, ?2, ?3, ?4, ?5 WHERE (SELECT count(*) `+here+`) < ?6 OR EXISTS (SELECT 1 `+here+` AND override = ?4)
			ON CONFLICT (prefix, length, number, override) DO UPDATE SET count = count + excluded.count`,
			s.args(l.Override, l.Count, admin.LetThroughKept)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// Counts implements [admin.SideTable].
func (s side) Counts(ctx context.Context, last time.Duration, add func(store.Instant, int64, *admin.Denials)) (store.Instant, error) {
	now := store.InstantOf(s.clock())
	var read []admin.Denials
	var numbers []int64
	err := s.readTable(ctx, &denialTable, func(tx *sql.Conn) error {
		now, read, numbers = store.InstantOf(s.clock()), nil, nil
		counts, err := letThroughTable.exists(ctx, tx)
		if err != nil {
			return err
		}
		steps := admin.StepsOf(last)
		from, to := steps.Touched(now, last)
		for number := from; number <= to; number++ {
			d := admin.Denials{}
			each := s.step(tx, steps, number)
			err := each.read(ctx, &d, steps.Held()+1)
			if err == nil && counts {
				err = each.readLetThrough(ctx, &d)
			}
			if err != nil {
				return err
			}
			read, numbers = append(read, d), append(numbers, number)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for i := range read {
		add(now, numbers[i], &read[i])
	}
	return now, nil
}

// read reads the denials of the step.
func (s *step) read(ctx context.Context, d *admin.Denials, most int) error {
	const longest = admin.MaxDenialText
	found, err := s.tx.QueryContext(ctx, `SELECT subject, name, count, last_at, since, blocked, compared, allowed, limited, override
		FROM denial_steps WHERE prefix = ? AND length = ? AND number = ? AND octet_length(subject) <= ? AND octet_length(name) <= ?
		AND octet_length(limited) <= ? AND octet_length(override) <= ? LIMIT ?`, s.args(longest, longest, longest, longest, most)...)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var row admin.Denied
		limit := ""
		if err := found.Scan(&row.Key.Subject, &row.Key.Name, &row.Count, &row.LastAt, &row.Since, &row.Blocked, &row.Compared,
			&row.Allowed, &limit, &row.Override); err != nil {
			return err
		}
		row.Limit, _ = store.ParseLimit(limit) // one of a newer limitctl is not known
		switch {
		case row.Key.Subject == "":
			d.Others, d.Lost = row.Count, row.LastAt != 0
		case !row.IsSound():
			return s.foreign()
		default:
			d.Rows = append(d.Rows, row)
		}
	}
	return found.Err()
}

func (s *step) foreign() error {
	return &store.ForeignError{StoreKey: s.path, Holds: "a row of denials that limitctl did not write"}
}

// readLetThrough reads what overrides let through in the step.
func (s *step) readLetThrough(ctx context.Context, d *admin.Denials) error {
	found, err := s.tx.QueryContext(ctx, `SELECT override, count FROM let_through_steps
		WHERE prefix = ? AND length = ? AND number = ? AND octet_length(override) <= ? LIMIT ?`,
		s.args(admin.MaxDenialText, admin.LetThroughKept)...)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var l admin.LetThrough
		if err := found.Scan(&l.Override, &l.Count); err != nil {
			return err
		}
		if l.Check() != nil {
			return s.foreign()
		}
		d.LetThrough = append(d.LetThrough, l)
	}
	return found.Err()
}
