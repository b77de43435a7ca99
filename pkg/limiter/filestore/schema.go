package filestore

import (
	"context"
	"database/sql"
	_ "embed" // schema.sql
	"errors"
	"fmt"
	"strings"
)

const (
	// applicationID marks an SQLite file as limitctl's in its header ("rlim").
	applicationID = 0x726c696d
	schemaVersion = 1
)

//go:embed schema.sql
var schema string

// prepare makes the tables that are missing, and refuses the database of another program, and one with limitctl's mark
// that does something else, by a trigger or by a view in place of a table.
func prepare(ctx context.Context, db *sql.DB) error {
	var id, version, objects, others, limits int
	err := db.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), count(*),
		count(CASE WHEN type IN ('trigger', 'view') THEN 1 END),
		count(CASE WHEN name = 'limits' THEN 1 END) FROM sqlite_master`).Scan(&id, &version, &objects, &others, &limits)
	switch {
	case err != nil:
		return err
	case id == applicationID && version != schemaVersion:
		return fmt.Errorf("it has format version %d, which this limitctl does not know", version)
	case id == applicationID && (others > 0 || limits != 1):
		return errors.New("its tables are not those of limitctl")
	case id != applicationID && (id != 0 || objects > 0):
		return errors.New("it is another program's database")
	}
	complete := true
	for statement := range strings.SplitSeq(schema, ";\n") {
		_, table, isTable := strings.Cut(statement, "CREATE TABLE IF NOT EXISTS ")
		if !isTable {
			continue
		}
		name, _, _ := strings.Cut(table, " ")
		var own bool
		err := db.QueryRowContext(ctx, "SELECT coalesce(sql, '') = ? FROM sqlite_master WHERE name = ?",
			"CREATE TABLE "+table, name).
			Scan(&own)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			complete = false
		case err != nil:
			return err
		case !own:
			return fmt.Errorf("its table %s is not limitctl's", name)
		}
	}
	if complete {
		return nil
	}
	// Readers and a writer go side by side. This is a property of the file, set outside a transaction.
	if _, err := db.ExecContext(ctx, "PRAGMA journal_mode = wal"); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("%s PRAGMA application_id = %d; PRAGMA user_version = %d", schema,
		applicationID,
		schemaVersion)); err != nil {
		return err
	}
	return tx.Commit()
}
