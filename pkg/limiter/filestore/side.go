package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// side is the [admin.SideTable] of a store. Each call is a transaction.
type side struct{ *Store }

// sideTable is a table beside the limits. It is made with its first row, and an older limitctl ignores it.
type sideTable struct {
	name   string
	create string // the statement that makes it
}

// recordTable is a table of records: its columns, or constants in their place.
type recordTable struct {
	sideTable
	key, value, created, ends string
	put                       string // a statement with the prefix and these four
}

var identityTable = recordTable{sideTable{"identities", `CREATE TABLE IF NOT EXISTS identities (
	prefix TEXT NOT NULL PRIMARY KEY,
	id     TEXT NOT NULL
) WITHOUT ROWID`}, "''", "id", "0", "0", "INSERT OR REPLACE INTO identities (prefix, id) VALUES (?1, CAST(?3 AS TEXT))"}

// overrideTable has a row for each override, and one without an ID for the version, which ends with the last override.
var overrideTable = recordTable{sideTable{"overrides", `CREATE TABLE IF NOT EXISTS overrides (
	prefix  TEXT    NOT NULL,
	id      TEXT    NOT NULL,
	record  TEXT    NOT NULL, -- JSON, or the version
	created INTEGER NOT NULL, -- µs since the epoch
	ends    INTEGER NOT NULL, -- likewise
	PRIMARY KEY (prefix, id)
) WITHOUT ROWID`}, "id", "record", "created", "ends",
	"INSERT OR REPLACE INTO overrides (prefix, id, record, created, ends) VALUES (?1, ?2, CAST(?3 AS TEXT), ?4, ?5)"}

// publishedTable has the head, the versions and the reports of processes. Only reports end.
var publishedTable = recordTable{sideTable{"published", `CREATE TABLE IF NOT EXISTS published (
	prefix TEXT    NOT NULL,
	part   TEXT    NOT NULL, -- head, v:NUMBER or process:PLACE
	ends   INTEGER NOT NULL, -- µs since the epoch; 0 for never; before the record, which can be large and would be read first
	record BLOB    NOT NULL,
	PRIMARY KEY (prefix, part)
)`}, "part", "record", "0", "ends", "INSERT OR REPLACE INTO published (prefix, part, record, ends) VALUES (?1, ?2, ?3, ?5)"}

var recordTables = [...]*recordTable{admin.IdentityTable: &identityTable, admin.OverrideTable: &overrideTable,
	admin.ConfigTable: &publishedTable, admin.ReportTable: &publishedTable}

// rowKey returns the key of a row. Published configurations and reports share a table.
func rowKey(t admin.Table, name string) string {
	switch {
	case t == admin.ConfigTable && name == "":
		return "head"
	case t == admin.ConfigTable:
		return "v:" + name
	case t == admin.ReportTable:
		return "process:" + name
	}
	return name
}

// listTables are the tables of texts, in the order of writing, for all prefixes.
var listTables = [...]sideTable{admin.JournalList: textTable("journal"), admin.HistoryList: textTable("published_history")}

func textTable(name string) sideTable {
	return sideTable{name, `CREATE TABLE IF NOT EXISTS ` + name + ` (
	number INTEGER PRIMARY KEY, -- in the order of writing
	prefix TEXT    NOT NULL,
	at     INTEGER NOT NULL, -- µs since the epoch
	text   TEXT    NOT NULL
)`}
}

// exists reports whether the file has the table. It fails if another program made it.
func (t *sideTable) exists(ctx context.Context, tx *sql.Conn) (bool, error) {
	var schema string
	err := tx.QueryRowContext(ctx, "SELECT coalesce(sql, '') FROM sqlite_master WHERE name = ?", t.name).Scan(&schema)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err == nil && schema != strings.Replace(t.create, "IF NOT EXISTS ", "", 1):
		return false, fmt.Errorf("its table %s is not limitctl's", t.name)
	}
	return err == nil, err
}

// make makes the table if it is missing.
func (t *sideTable) make(ctx context.Context, tx *sql.Conn) error {
	has, err := t.exists(ctx, tx)
	if err == nil && !has {
		_, err = tx.ExecContext(ctx, t.create)
	}
	return err
}

// read calls do in a transaction that only reads, if the file has t.
func (s side) readTable(ctx context.Context, t *sideTable, do func(tx *sql.Conn) error) error {
	return s.read(ctx, func(tx *sql.Conn) error {
		if has, err := t.exists(ctx, tx); !has {
			return err
		}
		return do(tx)
	})
}

// changeTable calls do in a transaction that writes, after it has made t if that is missing. do gets a context of its
// own, since a transaction does not end in the middle.
func (s side) changeTable(ctx context.Context, t *sideTable, do func(ctx context.Context, tx *sql.Conn, now store.Instant) error) error {
	return s.write(ctx, true, func(w *transaction) error {
		ctx := context.Background()
		if err := t.make(ctx, w.conn); err != nil {
			return err
		}
		return do(ctx, w.conn, w.now)
	})
}

// Get implements [admin.SideTable].
func (s side) Get(ctx context.Context, t admin.Table, names ...string) (found []admin.TableRecord, now store.Instant, err error) {
	var foreign error
	now = store.InstantOf(s.clock())
	err = s.readTable(ctx, &recordTables[t].sideTable, func(tx *sql.Conn) error {
		found, foreign, now = nil, nil, store.InstantOf(s.clock())
		for _, name := range names {
			r, err := s.get(ctx, tx, t, name, now)
			switch {
			case errors.Is(err, store.ErrForeign):
				foreign = errors.Join(foreign, err)
			case err != nil:
				return err
			case r.Value != "":
				found = append(found, r)
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return found, now, foreign
}

// get reads a record, whose value is empty if there is none. SQLite keeps values of any type, whatever type the column
// has.
func (s side) get(ctx context.Context, tx *sql.Conn, t admin.Table, name string, now store.Instant) (admin.TableRecord, error) {
	of, r := recordTables[t], admin.TableRecord{Name: name, Place: s.path}
	var value []byte
	err := tx.QueryRowContext(ctx, fmt.Sprintf(`SELECT substr(CAST(%s AS BLOB), 1, ?),
		CASE typeof(%[2]s) WHEN 'integer' THEN %[2]s ELSE -1 END, CASE typeof(%[3]s) WHEN 'integer' THEN %[3]s ELSE -1 END
		FROM %[4]s WHERE prefix = ? AND %[5]s = ? AND (%[3]s = 0 OR %[3]s > ?)`, of.value, of.created, of.ends, of.name, of.key),
		t.Max(name)+1, s.prefix, rowKey(t, name), int64(now)).Scan(&value, &r.Created, &r.Ends)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return r, nil
	case err == nil && len(value) > t.Max(name):
		return r, r.Foreign(fmt.Sprintf("a value in %s that limitctl did not write", of.name))
	}
	r.Value, r.Left = string(value), now.Until(r.Ends)
	return r, err
}

// Names implements [admin.SideTable].
func (s side) Names(ctx context.Context) (names []string, version string, err error) {
	err = s.readTable(ctx, &overrideTable.sideTable, func(tx *sql.Conn) error {
		now := store.InstantOf(s.clock())
		r, err := s.get(ctx, tx, admin.OverrideTable, "", now)
		if err != nil {
			return err
		}
		names, version = nil, r.Value
		rows, err := tx.QueryContext(ctx, "SELECT substr(id, 1, ?) FROM overrides WHERE prefix = ? AND id != '' AND ends > ? LIMIT ?",
			admin.OverrideIDSize+1, s.prefix, int64(now), admin.MaxOverrides)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			name := ""
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names = append(names, name)
		}
		return rows.Err()
	})
	return names, version, err
}

// Change implements [admin.SideTable]. It also removes the records of the table that have ended.
func (s side) Change(ctx context.Context, c *admin.Change) (done bool, err error) {
	if err := c.Check(); err != nil {
		return false, err
	}
	of := recordTables[c.Table]
	err = s.changeTable(ctx, &of.sideTable, func(ctx context.Context, tx *sql.Conn, now store.Instant) error {
		was, err := s.get(ctx, tx, c.Table, c.Guard, now)
		if err != nil && !errors.Is(err, store.ErrForeign) || was.Value != c.Was {
			return err
		}
		if err := exec(ctx, tx, fmt.Sprintf("DELETE FROM %s WHERE %s > 0 AND %[2]s <= ?", of.name, of.ends), int64(now)); err != nil {
			return err
		}
		for _, name := range c.Drop {
			err := exec(ctx, tx, fmt.Sprintf("DELETE FROM %s WHERE prefix = ? AND %s = ?", of.name, of.key), s.prefix,
				rowKey(c.Table, name))
			if err != nil {
				return err
			}
		}
		for _, r := range c.Set {
			if r.Ends == 0 && r.Left > 0 {
				r.Ends = now + store.Instant(r.Left/time.Microsecond)
			}
			err := exec(ctx, tx, of.put, s.prefix, rowKey(c.Table, r.Name), []byte(r.Value), int64(r.Created), int64(r.Ends))
			if err != nil {
				return err
			}
		}
		if c.Table == admin.OverrideTable {
			if err := s.endVersion(ctx, tx, now); err != nil {
				return err
			}
		}
		if c.Line != "" {
			if err := s.append(ctx, tx, admin.HistoryList, c.Line, now); err != nil {
				return err
			}
		}
		done = true
		return nil
	})
	return done && err == nil, err
}

// endVersion ends the version of the overrides with the last of them.
func (s side) endVersion(ctx context.Context, tx *sql.Conn, now store.Instant) error {
	err := exec(ctx, tx, `UPDATE overrides SET created = ?,
		ends = (SELECT coalesce(max(ends), 0) FROM overrides WHERE prefix = ? AND id != '') WHERE prefix = ? AND id = ''`,
		int64(now), s.prefix, s.prefix)
	return errors.Join(err, exec(ctx, tx, "DELETE FROM overrides WHERE prefix = ? AND ends <= ?", s.prefix, int64(now)))
}

func exec(ctx context.Context, tx *sql.Conn, statement string, args ...any) error {
	_, err := tx.ExecContext(ctx, statement, args...)
	return err
}

// Append implements [admin.SideTable].
func (s side) Append(ctx context.Context, l admin.List, text string) error {
	return s.changeTable(ctx, &listTables[l], func(ctx context.Context, tx *sql.Conn, now store.Instant) error {
		return s.append(ctx, tx, l, text, now)
	})
}

func (s side) append(ctx context.Context, tx *sql.Conn, l admin.List, text string, now store.Instant) error {
	t := &listTables[l]
	err := t.make(ctx, tx)
	if err == nil {
		err = exec(ctx, tx, "INSERT INTO "+t.name+" (prefix, at, text) VALUES (?, ?, ?)", s.prefix, int64(now), text)
	}
	if err == nil {
		err = exec(ctx, tx, "DELETE FROM "+t.name+" WHERE prefix = ? AND number <= (SELECT number FROM "+t.name+
			" WHERE prefix = ? ORDER BY number DESC LIMIT 1 OFFSET ?)", s.prefix, s.prefix, l.Kept())
	}
	return err
}

// Lines implements [admin.SideTable].
func (s side) Lines(ctx context.Context, l admin.List, most int) (lines []admin.JournalEntry, damaged int, err error) {
	err = s.readTable(ctx, &listTables[l], func(tx *sql.Conn) error {
		lines, damaged = nil, 0
		// Texts that are too long are not read.
		rows, err := tx.QueryContext(ctx, `SELECT at, text FROM (SELECT number, CASE typeof(at) WHEN 'integer' THEN at ELSE 0 END AS at,
			CASE WHEN typeof(text) = 'text' AND octet_length(text) <= ? THEN text ELSE '' END AS text
			FROM `+listTables[l].name+` WHERE prefix = ? ORDER BY number DESC LIMIT ?)`,
			admin.MaxJournalText, s.prefix, max(0, min(most, l.Kept())))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var at store.Instant
			var entry admin.JournalEntry
			if err := rows.Scan(&at, &entry.Text); err != nil {
				return err
			}
			if entry.At = at.Time(); entry.IsSound() {
				lines = append(lines, entry)
			} else {
				damaged++
			}
		}
		return rows.Err()
	})
	slices.Reverse(lines)
	return lines, damaged, err
}
