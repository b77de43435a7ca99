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
// of all other keys together; its last_at is 1 if some denials are counted nowhere, and otherwise 0.
var denialTable = sideTable{name: "denials", of: "denials", create: `CREATE TABLE IF NOT EXISTS denials (
	prefix  TEXT    NOT NULL,
	minute  INTEGER NOT NULL, -- since the epoch
	subject TEXT    NOT NULL,
	name    TEXT    NOT NULL,
	count   INTEGER NOT NULL,
	last_at INTEGER NOT NULL, -- µs since the epoch
	PRIMARY KEY (prefix, minute, subject, name)
) WITHOUT ROWID`}

// AddDenials implements [admin.DenialTable] in one transaction.
func (s *Store) AddDenials(ctx context.Context, d admin.Denials) error {
	if err := d.Check(); err != nil {
		return err
	}
	return s.changeTable(ctx, denialTable, func(ctx context.Context, tx *sql.Tx, now store.Instant) error {
		return s.addDenials(ctx, tx, denialtable.MinuteOf(now), &d, now)
	})
}

func (s *Store) addDenials(ctx context.Context, tx *sql.Tx, minute int64, d *admin.Denials, now store.Instant) error {
	const kept = int64(admin.DenialHistory / time.Minute)
	if _, err := tx.ExecContext(ctx, "DELETE FROM denials WHERE minute < ?", minute-kept); err != nil {
		return err
	}
	add, err := tx.PrepareContext(ctx, `INSERT INTO denials (prefix, minute, subject, name, count, last_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (prefix, minute, subject, name) DO UPDATE SET count = count + excluded.count, last_at = max(last_at, excluded.last_at)`)
	if err != nil {
		return err
	}
	defer add.Close()
	for _, row := range d.Rows {
		last := now - max(0, d.Now-row.LastAt)
		if _, err := add.ExecContext(ctx, s.prefix, minute, row.Key.Subject, row.Key.Name, row.Count, int64(last)); err != nil {
			return err
		}
	}
	if others := d.Others; others > 0 || d.Lost {
		if _, err := add.ExecContext(ctx, s.prefix, minute, "", "", others, d.Lost); err != nil {
			return err
		}
	}
	return s.dropDenials(ctx, tx, minute, add)
}

// dropDenials removes the least denied keys of a minute, if it has many more rows than are kept.
func (s *Store) dropDenials(ctx context.Context, tx *sql.Tx, minute int64, add *sql.Stmt) error {
	var rows int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM denials WHERE prefix = ? AND minute = ?", s.prefix, minute).Scan(&rows)
	if err != nil || rows <= denialtable.MostHeld {
		return err
	}
	const surplus = `FROM denials WHERE (prefix, minute, subject, name) IN (SELECT prefix, minute, subject, name FROM denials
		WHERE prefix = ? AND minute = ? AND subject > '' ORDER BY count DESC, last_at DESC LIMIT -1 OFFSET ?)`
	var dropped int64
	err = tx.QueryRowContext(ctx, "SELECT coalesce(sum(count), 0) "+surplus, s.prefix, minute, admin.DenialsKept).Scan(&dropped)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE "+surplus, s.prefix, minute, admin.DenialsKept); err != nil {
		return err
	}
	_, err = add.ExecContext(ctx, s.prefix, minute, "", "", dropped, 0)
	return err
}

// Denials implements [admin.DenialTable].
func (s *Store) Denials(ctx context.Context, last time.Duration) (admin.Denials, error) {
	if err := denialtable.CheckLast(last); err != nil {
		return admin.Denials{}, err
	}
	sum := denialtable.NewSum(store.InstantOf(s.clock()), last)
	err := s.readTable(ctx, denialTable, func(tx *sql.Tx, at store.Instant) error {
		sum = denialtable.NewSum(at, last)
		from, to := denialtable.Minutes(at, last)
		for minute := from; minute <= to; minute++ {
			if err := s.readMinute(ctx, tx, minute, sum); err != nil {
				return err
			}
		}
		return nil
	})
	return sum.Denials(), err
}

// readMinute adds the denials of a minute to sum.
func (s *Store) readMinute(ctx context.Context, tx *sql.Tx, minute int64, sum *denialtable.Sum) error {
	found, err := tx.QueryContext(ctx, `SELECT subject, name, count, last_at FROM denials WHERE prefix = ? AND minute = ?
		AND octet_length(subject) <= ? AND octet_length(name) <= ? LIMIT ?`,
		s.prefix, minute, admin.MaxDenialText, admin.MaxDenialText, denialtable.MostHeld+1)
	if err != nil {
		return err
	}
	defer found.Close()
	var rows []admin.Denied
	var others int64
	lost := false
	for found.Next() {
		var row admin.Denied
		if err := found.Scan(&row.Key.Subject, &row.Key.Name, &row.Count, &row.LastAt); err != nil {
			return err
		}
		switch {
		case row.Key.Subject == "":
			others, lost = row.Count, row.LastAt != 0
		case row.Count < 0 || row.Key.Name == "" || row.Key.Validate() != nil:
			return &store.ForeignError{StoreKey: s.path, Holds: fmt.Sprintf("a row of denials of %s that limitctl did not write", row.Key)}
		default:
			rows = append(rows, row)
		}
	}
	sum.Add(rows, others, lost)
	return found.Err()
}
