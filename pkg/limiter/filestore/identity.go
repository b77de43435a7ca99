package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.Identity = (*Store)(nil)

// identityTable has the id of each prefix.
var identityTable = sideTable{name: "identities", of: "identities", create: `CREATE TABLE IF NOT EXISTS identities (
	prefix TEXT NOT NULL PRIMARY KEY,
	id     TEXT NOT NULL
) WITHOUT ROWID`}

// StoreID implements [admin.Identity].
func (s *Store) StoreID(ctx context.Context) (id string, err error) {
	err = s.readTable(ctx, identityTable, func(tx *sql.Conn, _ store.Instant) (err error) {
		id, err = s.identity(ctx, tx)
		return err
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// EnsureStoreID implements [admin.Identity] in one transaction.
func (s *Store) EnsureStoreID(ctx context.Context) (id string, err error) {
	if id, err = s.StoreID(ctx); err != nil || id != "" {
		return id, err
	}
	err = s.changeTable(ctx, identityTable, func(ctx context.Context, tx *sql.Conn, _ store.Instant) (err error) {
		if id, err = s.identity(ctx, tx); err != nil || id != "" {
			return err
		}
		id = admin.NewStoreID()
		_, err = tx.ExecContext(ctx, "INSERT INTO identities (prefix, id) VALUES (?, ?)", s.prefix, id)
		return err
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// identity reads the id, which is empty before [Store.EnsureStoreID] has made one.
func (s *Store) identity(ctx context.Context, tx *sql.Conn) (id string, err error) {
	err = tx.QueryRowContext(ctx, "SELECT id FROM identities WHERE prefix = ?", s.prefix).Scan(&id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err == nil && !admin.IsStoreID(id):
		return "", &store.ForeignError{StoreKey: s.path, Holds: "an id that limitctl did not write"}
	}
	return id, err
}

// sideTable is a table beside the limits. It is made with its first row, and an older limitctl ignores it.
type sideTable struct {
	name   string
	create string // the statement that makes it
	of     string // what errors call it: "denials", "the journal"
}

// exists reports whether the file has the table. It fails if another program made it.
func (t sideTable) exists(ctx context.Context, tx *sql.Conn) (bool, error) {
	var schema string
	err := tx.QueryRowContext(ctx, "SELECT coalesce(sql, '') FROM sqlite_master WHERE name = ?", t.name).Scan(&schema)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err == nil && schema != strings.Replace(t.create, "IF NOT EXISTS ", "", 1):
		return false, fmt.Errorf("its table of %s is not limitctl's", t.of)
	}
	return err == nil, err
}

// readTable calls do in a transaction that only reads, if the file has t.
func (s *Store) readTable(ctx context.Context, t sideTable, do func(tx *sql.Conn, now store.Instant) error) error {
	return s.read(ctx, func(tx *sql.Conn) error {
		if has, err := t.exists(ctx, tx); !has {
			return err
		}
		return do(tx, store.InstantOf(s.clock()))
	})
}

// changeTable calls do in a transaction that writes, after it has made t if that is missing. do gets a context of its
// own, since a transaction does not end in the middle.
func (s *Store) changeTable(ctx context.Context, t sideTable, do func(ctx context.Context, tx *sql.Conn, now store.Instant) error) error {
	return s.write(ctx, true, func(w *transaction) error {
		ctx := context.Background()
		if err := t.make(ctx, w.conn); err != nil {
			return err
		}
		return do(ctx, w.conn, w.now)
	})
}

// make makes the table if it is missing.
func (t sideTable) make(ctx context.Context, tx *sql.Conn) error {
	has, err := t.exists(ctx, tx)
	if err == nil && !has {
		_, err = tx.ExecContext(ctx, t.create)
	}
	return err
}
