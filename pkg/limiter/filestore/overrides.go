package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/overridetable"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.OverrideTable = (*Store)(nil)

// overrideTable has a row for each override, and one without an ID for the version, which ends with the last
// override.
var overrideTable = sideTable{name: "overrides", of: "overrides", create: `CREATE TABLE IF NOT EXISTS overrides (
	prefix  TEXT    NOT NULL,
	id      TEXT    NOT NULL,
	record  TEXT    NOT NULL, -- JSON, or the version
	created INTEGER NOT NULL, -- µs since the epoch
	ends    INTEGER NOT NULL, -- likewise
	PRIMARY KEY (prefix, id)
) WITHOUT ROWID`}

// overrideVersion returns the version at now, which is empty without overrides.
func (s *Store) overrideVersion(ctx context.Context, tx *sql.Conn, now store.Instant) (version string, err error) {
	err = tx.QueryRowContext(ctx, "SELECT substr(record, 1, ?) FROM overrides WHERE prefix = ? AND id = '' AND ends > ?",
		overridetable.VersionSize, s.prefix, int64(now)).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return version, err
}

// OverrideVersion implements [admin.OverrideTable].
func (s *Store) OverrideVersion(ctx context.Context) (version string, err error) {
	err = s.readTable(ctx, overrideTable, func(tx *sql.Conn, now store.Instant) (err error) {
		version, err = s.overrideVersion(ctx, tx, now)
		return err
	})
	return version, err
}

// Overrides implements [admin.OverrideTable] in one transaction.
func (s *Store) Overrides(ctx context.Context) (list []store.Override, version string, err error) {
	var foreign error
	err = s.readTable(ctx, overrideTable, func(tx *sql.Conn, now store.Instant) (err error) {
		list, foreign = nil, nil
		if version, err = s.overrideVersion(ctx, tx, now); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT `+overrideColumns+` FROM overrides
			WHERE prefix = ? AND id != '' AND ends > ? LIMIT ?`,
			overridetable.MaxSize+1, s.prefix, int64(now), admin.MaxOverrides)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			o, err := s.scanOverride(rows.Scan, now)
			if errors.Is(err, store.ErrForeign) {
				foreign = errors.Join(foreign, err)
			} else if err != nil {
				return err
			} else {
				list = append(list, o)
			}
		}
		return rows.Err()
	})
	if err != nil {
		return nil, "", err
	}
	overridetable.SortNewestFirst(list)
	return list, version, foreign
}

// overrideColumns are what scanOverride reads. SQLite keeps values of any type, whatever type the column has.
const overrideColumns = `id, CASE typeof(record) WHEN 'text' THEN substr(record, 1, ?) ELSE '' END,
	CASE typeof(created) WHEN 'integer' THEN created ELSE -1 END, CASE typeof(ends) WHEN 'integer' THEN ends ELSE -1 END`

// scanOverride reads a row with overrideColumns.
func (s *Store) scanOverride(scan func(into ...any) error, now store.Instant) (store.Override, error) {
	var id, record string
	var created, ends store.Instant
	if err := scan(&id, &record, &created, &ends); err != nil {
		return store.Override{}, err
	}
	o, err := overridetable.Decode([]byte(record))
	if err == nil && !overridetable.IsID(id) {
		err = fmt.Errorf("an override with the ID %q", id)
	}
	if err == nil {
		err = overridetable.CheckTimes(created, ends, now)
	}
	if err != nil {
		return store.Override{}, &store.ForeignError{StoreKey: s.path, Holds: err.Error()}
	}
	overridetable.Complete(&o, id, created, ends, now)
	return o, nil
}

// changedOverride is the result of a change. The writer writes it, so a caller that no longer waits for the writer
// must not read it.
type changedOverride struct {
	store.Override
	found, full bool
}

// changeOverrides calls do in a transaction that writes, after the overrides that have ended are gone.
func (s *Store) changeOverrides(ctx context.Context, do func(ctx context.Context, tx *sql.Conn, now store.Instant) error) error {
	return s.changeTable(ctx, overrideTable, func(ctx context.Context, tx *sql.Conn, now store.Instant) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM overrides WHERE ends <= ?", int64(now)); err != nil { // of any prefix
			return err
		}
		return do(ctx, tx, now)
	})
}

// SetOverride implements [admin.OverrideTable] in one transaction.
func (s *Store) SetOverride(ctx context.Context, o store.Override, lasts time.Duration) (store.Override, error) {
	written, err := overridetable.Encode(&o, lasts)
	if err != nil {
		return store.Override{}, err
	}
	set := new(changedOverride)
	err = s.changeOverrides(ctx, func(ctx context.Context, tx *sql.Conn, now store.Instant) (err error) {
		id, isNew, err := s.overrideID(ctx, tx, written)
		if err != nil {
			return err
		}
		var rows int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM overrides WHERE prefix = ? AND id != ''",
			s.prefix).Scan(&rows); err != nil {
			return err
		}
		if set.full = isNew && rows >= admin.MaxOverrides; set.full {
			return nil
		}
		created, ends := overridetable.Times(now, lasts)
		_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO overrides (prefix, id, record, created, ends) VALUES (?, ?, ?, ?, ?)",
			s.prefix, id, string(written.Text), int64(created), int64(ends))
		if err != nil {
			return err
		}
		if set.Override, err = overridetable.Decode(written.Text); err != nil {
			return err
		}
		overridetable.Complete(&set.Override, id, created, ends, now)
		return s.renewOverrideVersion(ctx, tx, now)
	})
	switch {
	case err != nil:
		return store.Override{}, err
	case set.full:
		return store.Override{}, overridetable.ErrFull()
	}
	return set.Override, nil
}

// overrideID returns the ID of an override, or a free one for a new override.
func (s *Store) overrideID(ctx context.Context, tx *sql.Conn, written *overridetable.Written) (id string, isNew bool, err error) {
	for try := range overridetable.IDTries {
		id = written.ID(try)
		var record string
		err := tx.QueryRowContext(ctx, "SELECT substr(record, 1, ?) FROM overrides WHERE prefix = ? AND id = ?",
			overridetable.MaxSize+1, s.prefix, id).Scan(&record)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return id, true, nil
		case err != nil:
			return "", false, err
		case written.IsOf(record):
			return id, false, nil
		}
	}
	return "", false, overridetable.ErrNoID()
}

// renewOverrideVersion makes a new version, or removes it if there are no overrides.
func (s *Store) renewOverrideVersion(ctx context.Context, tx *sql.Conn, now store.Instant) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM overrides WHERE prefix = ? AND id = ''", s.prefix); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO overrides (prefix, id, record, created, ends)
		SELECT prefix, '', ?, ?, max(ends) FROM overrides WHERE prefix = ? GROUP BY prefix`,
		overridetable.NewVersion(), int64(now), s.prefix)
	return err
}

// RevokeOverride implements [admin.OverrideTable] in one transaction.
func (s *Store) RevokeOverride(ctx context.Context, id string) (o store.Override, found bool, err error) {
	version, err := s.OverrideVersion(ctx)
	if err != nil || version == "" || !overridetable.IsID(id) {
		return o, false, err // the table is empty, and perhaps the file is missing
	}
	ended := new(changedOverride)
	err = s.changeOverrides(ctx, func(ctx context.Context, tx *sql.Conn, now store.Instant) (err error) {
		row := tx.QueryRowContext(ctx, "SELECT "+overrideColumns+" FROM overrides WHERE prefix = ? AND id = ?",
			overridetable.MaxSize+1, s.prefix, id)
		ended.Override, err = s.scanOverride(row.Scan, now)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		} else if err != nil {
			return err
		}
		ended.found = true
		if _, err := tx.ExecContext(ctx, "DELETE FROM overrides WHERE prefix = ? AND id = ?", s.prefix, id); err != nil {
			return err
		}
		return s.renewOverrideVersion(ctx, tx, now)
	})
	if err != nil {
		return store.Override{}, false, err
	}
	return ended.Override, ended.found, nil
}
