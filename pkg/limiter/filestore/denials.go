package filestore

import (
	"context"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

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
	return s.write(ctx, true, func(t *transaction) error {
		for _, steps := range []admin.DenialSteps{admin.FineSteps, admin.CoarseSteps} {
			current := &step{t, steps, steps.At(t.now)}
			if err := current.add(d); err != nil {
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
		blocked = blocked + excluded.blocked, compared = compared + excluded.compared,
		allowed = allowed + excluded.allowed,
		limited = CASE excluded.limited WHEN '' THEN limited ELSE excluded.limited END,
		override = CASE excluded.override WHEN '' THEN override ELSE excluded.override END`,
	admin.DenialPause.Microseconds())

const (
	rowsOfStep = " FROM denial_steps WHERE prefix = ?1 AND length = ?2 AND number = ?3"
	leastRows  = rowsOfStep + " AND subject > '' AND name NOT LIKE '(block)%' " +
		"ORDER BY name LIKE '(shadow)%', count DESC, last_at DESC LIMIT -1 OFFSET ?4"
	// sumRows returns the count of the least denied keys, if there are many more than are kept.
	sumRows = "SELECT coalesce(sum(count), 0) FROM (SELECT count" + leastRows + ") WHERE (SELECT count(*)" +
		rowsOfStep + ") > ?5"
	// dropRows removes them.
	dropRows = `DELETE FROM denial_steps WHERE (prefix, length, number, subject, name) IN
		(SELECT prefix, length, number, subject, name` + leastRows + ")"
)

// add adds d, counts the least denied keys together if there are many, and removes the steps that have ended.
func (s *step) add(d *admin.Denials) error {
	for _, row := range d.Rows {
		row = row.ByClock(d.Now, s.now)
		if err := s.exec(addRow, s.args(row.Key.Subject, row.Key.Name, row.Count, int64(row.LastAt), int64(row.Since),
			row.Blocked, row.Compared, row.Allowed, row.LimitText(), row.Override)...); err != nil {
			return err
		}
	}
	var dropped int64
	if err := s.row(sumRows, s.args(s.steps.Kept, s.steps.Held())...).Scan(&dropped); err != nil {
		return err
	}
	if dropped > 0 {
		if err := s.exec(dropRows, s.args(s.steps.Kept)...); err != nil {
			return err
		}
	}
	if others := d.Others + dropped; others > 0 || d.Lost {
		if err := s.exec(addRow, s.args("", "", others, d.Lost, 0, 0, 0, 0, "", "")...); err != nil {
			return err
		}
	}
	return s.exec("DELETE FROM denial_steps WHERE length = ? AND number < ?", s.args()[1],
		s.steps.At(s.now-store.Instant(s.steps.History.Microseconds())))
}

// Counts implements [admin.SideTable].
func (s side) Counts(ctx context.Context, last time.Duration, add func(store.Instant, int64, *admin.Tally)) (
	store.Instant, error) {
	now := store.InstantOf(s.clock())
	var read []*admin.Tally
	from := int64(0)
	err := s.read(ctx, func(t *transaction) error {
		read, now = nil, t.now
		steps, first, to := admin.StepsTouched(now, last)
		for from = first; first <= to; first++ {
			each, tally := &step{t, steps, first}, admin.NewTally()
			if err := each.read(tally); err != nil {
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
		FROM denial_steps WHERE prefix = ?1 AND length = ?2 AND number = ?3
		AND octet_length(subject) <= ?4 AND octet_length(name) <= ?4
		AND octet_length(limited) <= ?4 AND octet_length(override) <= ?4 LIMIT ?5`,
		s.args(admin.MaxDenialText, s.steps.Held()+admin.MaxOverrides+1)...)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var row admin.Denied
		limit := ""
		if err := found.Scan(&row.Key.Subject, &row.Key.Name, &row.Count, &row.LastAt, &row.Since, &row.Blocked,
			&row.Compared,
			&row.Allowed, &limit, &row.Override); err != nil {
			return err
		}
		row.Limit, _ = store.ParseLimit(limit) // one of a newer limitctl is not known
		switch {
		case row.Key.Subject == "":
			tally.Others, tally.Lost = row.Count, row.LastAt != 0
		case !row.IsSound():
			return &store.ForeignError{StoreKey: "denial_steps", Holds: "a row of denials that limitctl did not write"}
		default:
			tally.Rows[row.Key] = row
		}
	}
	return found.Err()
}
