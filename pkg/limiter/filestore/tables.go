package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// sideTable is a table for what is not a limit. It is made when something is first written to
// it, and an older limitctl does not look at it.
type sideTable struct {
	name   string
	create string // the statement that makes it
	of     string // what it is called in errors: "denials", "the journal"
}

// exists says whether the file has the table. It fails if that is not limitctl's.
func (t sideTable) exists(ctx context.Context, tx *sql.Tx) (bool, error) {
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

// make makes the table unless there is one. It fails if there is one that is not limitctl's.
func (t sideTable) make(ctx context.Context, tx *sql.Tx) error {
	has, err := t.exists(ctx, tx)
	if err == nil && !has {
		_, err = tx.ExecContext(ctx, t.create)
	}
	return err
}
