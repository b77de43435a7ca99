package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
)

const (
	// applicationID marks an SQLite file as limitctl's in its header ("rlim").
	applicationID = 0x726c696d
	schemaVersion = 1
)

// tables are the columns of all tables. An older limitctl made each table beside the limits when it had its first row, and
// compares these texts.
var tables = map[string]string{
	"limits": `(
	prefix    TEXT    NOT NULL,
	subject   TEXT    NOT NULL,
	name      TEXT    NOT NULL,
	record    BLOB    NOT NULL,
	unused_at INTEGER NOT NULL, -- µs since the epoch
	UNIQUE (prefix, subject, name)
)`,
	"tokens": `(
	prefix TEXT    NOT NULL,
	token  TEXT    NOT NULL,
	record BLOB    NOT NULL,
	ends   INTEGER NOT NULL, -- µs since the epoch
	PRIMARY KEY (prefix, token)
)`,
	"identities": `(
	prefix TEXT NOT NULL PRIMARY KEY,
	id     TEXT NOT NULL
) WITHOUT ROWID`,
	// A row for each override, and one without an ID for the version, which ends with the last override.
	"overrides": `(
	prefix  TEXT    NOT NULL,
	id      TEXT    NOT NULL,
	record  TEXT    NOT NULL, -- JSON, or the version
	created INTEGER NOT NULL, -- µs since the epoch
	ends    INTEGER NOT NULL, -- likewise
	PRIMARY KEY (prefix, id)
) WITHOUT ROWID`,
	// The head, the versions and the reports of processes. Only reports end.
	"published": `(
	prefix TEXT    NOT NULL,
	part   TEXT    NOT NULL, -- head, v:NUMBER or process:PLACE
	ends   INTEGER NOT NULL, -- µs since the epoch; 0 for never; before the record, which can be large and would be read first
	record BLOB    NOT NULL,
	PRIMARY KEY (prefix, part)
)`,
	"journal":           texts,
	"published_history": texts,
	// A row for each key that was denied in a step. The row without subject and name counts the denials of all other keys
	// together; its last_at is 1 if some denials are counted nowhere, and otherwise 0.
	"denial_steps": `(
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
) WITHOUT ROWID`,
	// A row for each override that let takes through in a step.
	"let_through_steps": `(
	prefix   TEXT    NOT NULL,
	length   INTEGER NOT NULL, -- of the step, in minutes
	number   INTEGER NOT NULL, -- of the step, since the epoch
	override TEXT    NOT NULL, -- its ID
	count    INTEGER NOT NULL,
	PRIMARY KEY (prefix, length, number, override)
) WITHOUT ROWID`,
}

// texts are the columns of a list of texts, for all prefixes.
const texts = `(
	number INTEGER PRIMARY KEY, -- in the order of writing
	prefix TEXT    NOT NULL,
	at     INTEGER NOT NULL, -- µs since the epoch
	text   TEXT    NOT NULL
)`

// prepare makes the tables that are missing, and refuses the database of another program, and one with limitctl's mark that does
// something else, by a trigger or by a view in place of a table.
func prepare(ctx context.Context, db *sql.DB) error {
	var id, version, objects, others, limits int
	names := slices.Sorted(maps.Keys(tables))
	err := db.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), count(*), count(CASE WHEN type IN ('trigger', 'view') THEN 1 END),
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
	missing := ""
	for _, name := range names {
		var own bool
		err := db.QueryRowContext(ctx, "SELECT coalesce(sql, '') = ? FROM sqlite_master WHERE name = ?",
			"CREATE TABLE "+name+" "+tables[name], name).Scan(&own)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			missing += "CREATE TABLE IF NOT EXISTS " + name + " " + tables[name] + ";"
		case err == nil && !own:
			return fmt.Errorf("its table %s is not limitctl's", name)
		case err != nil:
			return err
		}
	}
	if missing == "" {
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
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`%s CREATE INDEX IF NOT EXISTS limits_unused_at ON limits (unused_at);
		CREATE INDEX IF NOT EXISTS tokens_ends ON tokens (ends); PRAGMA application_id = %d; PRAGMA user_version = %d`,
		missing, applicationID, schemaVersion)); err != nil {
		return err
	}
	return tx.Commit()
}
