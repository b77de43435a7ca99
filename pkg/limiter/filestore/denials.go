package filestore

import (
	"context"
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
	*transaction
	steps  admin.DenialSteps
	number int64
}

// args returns the prefix, the length in minutes and the number, and more behind them.
func (s *step) args(more ...any) []any {
	return append([]any{s.prefix, int64(s.steps.Length / time.Minute), s.number}, more...)
}

// AddCounts implements [admin.SideTable].
func (s side) AddCounts(ctx context.Context, d *admin.Denials) error {
	return s.changeTable(ctx, &denialTable, func(t *transaction) error {
		if len(d.LetThrough) > 0 {
			if err := letThroughTable.make(t); err != nil {
				return err
			}
		}
		for _, steps := range []admin.DenialSteps{admin.FineSteps, admin.CoarseSteps} {
			current := &step{t, steps, steps.At(t.now)}
			if err := current.add(d); err != nil {
				return err
			}
			if err := current.addLetThrough(d.LetThrough); err != nil {
				return err
			}
		}
		return nil
	})
}

// removeEnded removes the steps of a table that have ended.
func (s *step) removeEnded(of sideTable) error {
	return s.exec("DELETE FROM "+of.name+" WHERE length = ? AND number < ?", s.args()[1],
		s.steps.At(s.now-store.Instant(s.steps.History.Microseconds())))
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

// dropRows removes the least denied keys, if there are many more than are kept, and returns their counts.
const dropRows = `DELETE FROM denial_steps WHERE (prefix, length, number, subject, name) IN
	(SELECT prefix, length, number, subject, name FROM denial_steps WHERE prefix = ?1 AND length = ?2 AND number = ?3 AND subject > ''
		ORDER BY count DESC, last_at DESC LIMIT -1 OFFSET ?4)
	AND (SELECT count(*) FROM denial_steps WHERE prefix = ?1 AND length = ?2 AND number = ?3) > ?5 RETURNING count`

// add adds the rows of d, and counts the least denied keys together if there are many.
func (s *step) add(d *admin.Denials) error {
	if err := s.removeEnded(denialTable); err != nil {
		return err
	}
	for _, row := range d.Rows {
		row = row.ByClock(d.Now, s.now)
		if err := s.exec(addRow, s.args(row.Key.Subject, row.Key.Name, row.Count, int64(row.LastAt), int64(row.Since),
			row.Blocked, row.Compared, row.Allowed, row.LimitText(), row.Override)...); err != nil {
			return err
		}
	}
	others := d.Others
	dropped, err := s.query(dropRows, s.args(s.steps.Kept, s.steps.Held())...)
	if err != nil {
		return err
	}
	for dropped.Next() {
		var count int64
		if err := dropped.Scan(&count); err != nil {
			return errors.Join(err, dropped.Close())
		}
		others += count
	}
	if err := errors.Join(dropped.Err(), dropped.Close()); err != nil || others == 0 && !d.Lost {
		return err
	}
	return s.exec(addRow, s.args("", "", others, d.Lost, 0, 0, 0, 0, "", "")...)
}

// addLetThrough adds what overrides let through, as long as there is room for them.
func (s *step) addLetThrough(added []admin.LetThrough) error {
	if len(added) == 0 {
		return nil
	}
	if err := s.removeEnded(letThroughTable); err != nil {
		return err
	}
	const here = "FROM let_through_steps WHERE prefix = ?1 AND length = ?2 AND number = ?3"
	for _, l := range added {
		err := s.exec(`INSERT INTO let_through_steps (prefix, length, number, override, count)
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
func (s side) Counts(ctx context.Context, last time.Duration, add func(store.Instant, int64, *admin.Tally)) (store.Instant, error) {
	now := store.InstantOf(s.clock())
	var read []*admin.Tally
	steps, from := admin.StepsOf(last), int64(0)
	err := s.readTable(ctx, &denialTable, func(t *transaction) error {
		read, now = nil, t.now
		through, err := letThroughTable.exists(t)
		if err != nil {
			return err
		}
		first, to := steps.Touched(now, last)
		for from = first; first <= to; first++ {
			each, tally := &step{t, steps, first}, admin.NewTally()
			err := each.read(tally)
			if err == nil && through {
				err = each.readLetThrough(tally)
			}
			if err != nil {
				return err
			}
			read = append(read, tally)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for i := range read {
		add(now, from+int64(i), read[i])
	}
	return now, nil
}

// read reads the denials of the step.
func (s *step) read(tally *admin.Tally) error {
	found, err := s.query(`SELECT subject, name, count, last_at, since, blocked, compared, allowed, limited, override
		FROM denial_steps WHERE prefix = ?1 AND length = ?2 AND number = ?3 AND octet_length(subject) <= ?4 AND octet_length(name) <= ?4
		AND octet_length(limited) <= ?4 AND octet_length(override) <= ?4 LIMIT ?5`, s.args(admin.MaxDenialText, s.steps.Held()+1)...)
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
			tally.Others, tally.Lost = row.Count, row.LastAt != 0
		case !row.IsSound():
			return s.foreign()
		default:
			tally.Rows[row.Key] = row
		}
	}
	return found.Err()
}

func (s *step) foreign() error {
	return &store.ForeignError{StoreKey: denialTable.name, Holds: "a row of denials that limitctl did not write"}
}

// readLetThrough reads what overrides let through in the step.
func (s *step) readLetThrough(tally *admin.Tally) error {
	found, err := s.query(`SELECT override, count FROM let_through_steps
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
		tally.LetThrough[l.Override] = l.Count
	}
	return found.Err()
}
