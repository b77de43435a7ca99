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

// nameOf is the reverse of rowKey.
func nameOf(t admin.Table, key string) string {
	if t == admin.ConfigTable {
		return strings.TrimPrefix(strings.TrimPrefix(key, "head"), "v:")
	}
	return strings.TrimPrefix(key, rowKey(t, ""))
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
func (of *sideTable) exists(t *transaction) (bool, error) {
	var schema string
	err := t.row("SELECT coalesce(sql, '') FROM sqlite_master WHERE name = ?", of.name).Scan(&schema)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err == nil && schema != strings.Replace(of.create, "IF NOT EXISTS ", "", 1):
		return false, fmt.Errorf("its table %s is not limitctl's", of.name)
	}
	return err == nil, err
}

// make makes the table if it is missing.
func (of *sideTable) make(t *transaction) error {
	has, err := of.exists(t)
	if err == nil && !has {
		err = t.exec(of.create)
	}
	return err
}

// readTable calls do in a transaction that only reads, if the file has the table.
func (s side) readTable(ctx context.Context, of *sideTable, do func(t *transaction) error) error {
	return s.read(ctx, func(t *transaction) error {
		if t.connection == nil {
			return nil
		}
		if has, err := of.exists(t); !has {
			return err
		}
		return do(t)
	})
}

// changeTable calls do in a transaction that writes, after it has made the table if that is missing.
func (s side) changeTable(ctx context.Context, of *sideTable, do func(t *transaction) error) error {
	return s.write(ctx, true, func(t *transaction) error {
		if err := of.make(t); err != nil {
			return err
		}
		return do(t)
	})
}

// Get implements [admin.SideTable].
func (s side) Get(ctx context.Context, of admin.Table, names ...string) (found []admin.TableRecord, now store.Instant, err error) {
	now = store.InstantOf(s.clock())
	err = s.readTable(ctx, &recordTables[of].sideTable, func(t *transaction) (err error) {
		now = t.now
		if len(names) == 1 {
			found, err = s.get(t, of, rowKey(of, names[0]), rowKey(of, names[0]))
		} else {
			found, err = s.get(t, of, rowKey(of, ""), rowKey(of, "")+"\xff")
		}
		return err
	})
	return found, now, err
}

// get reads the records with a key from first to last. SQLite keeps values of any type, whatever type the column has.
func (s side) get(t *transaction, of admin.Table, first, last string) (found []admin.TableRecord, err error) {
	table := recordTables[of]
	rows, err := t.query(fmt.Sprintf(`SELECT substr(CAST(%s AS BLOB), 1, ?1), substr(CAST(%s AS BLOB), 1, ?1),
		CASE typeof(%[3]s) WHEN 'integer' THEN %[3]s ELSE -1 END, CASE typeof(%[4]s) WHEN 'integer' THEN %[4]s ELSE -1 END
		FROM %[5]s WHERE prefix = ?2 AND %[1]s BETWEEN ?3 AND ?4 AND (%[4]s = 0 OR %[4]s > ?5) LIMIT ?6`,
		table.key, table.value, table.created, table.ends, table.name),
		of.Max("one")+1, s.prefix, first, last, int64(t.now), admin.MaxOverrides+1)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var key, value []byte
		r := admin.TableRecord{Place: s.path}
		if err := rows.Scan(&key, &value, &r.Created, &r.Ends); err != nil {
			return nil, err
		}
		r.Name, r.Left = nameOf(of, string(key)), t.now.Until(r.Ends)
		if len(value) <= of.Max(r.Name) {
			r.Value = string(value)
		}
		found = append(found, r)
	}
	return found, rows.Err()
}

// Change implements [admin.SideTable]. It also removes the records of the table that have ended.
func (s side) Change(ctx context.Context, c *admin.Change) (done bool, err error) {
	if err := c.Check(); err != nil {
		return false, err
	}
	of := recordTables[c.Table]
	err = s.changeTable(ctx, &of.sideTable, func(t *transaction) error {
		guard, err := s.get(t, c.Table, rowKey(c.Table, c.Guard), rowKey(c.Table, c.Guard))
		if err != nil || len(guard) == 0 && c.Was != "" || len(guard) > 0 && guard[0].Value != c.Was {
			return err
		}
		if err := t.exec(fmt.Sprintf("DELETE FROM %s WHERE %s > 0 AND %[2]s <= ?", of.name, of.ends), int64(t.now)); err != nil {
			return err
		}
		for _, name := range c.Drop {
			if err := t.exec("DELETE FROM "+of.name+" WHERE prefix = ? AND "+of.key+" = ?", s.prefix, rowKey(c.Table, name)); err != nil {
				return err
			}
		}
		for _, r := range c.Set {
			if r.Ends == 0 && r.Left > 0 {
				r.Ends = t.now + store.Instant(r.Left/time.Microsecond)
			}
			err := t.exec(of.put, s.prefix, rowKey(c.Table, r.Name), []byte(r.Value), int64(r.Created), int64(r.Ends))
			if err != nil {
				return err
			}
		}
		if c.Line != "" {
			if err := s.append(t, admin.HistoryList, c.Line); err != nil {
				return err
			}
		}
		done = true
		return nil
	})
	return done && err == nil, err
}

// Append implements [admin.SideTable].
func (s side) Append(ctx context.Context, l admin.List, text string) error {
	return s.changeTable(ctx, &listTables[l], func(t *transaction) error { return s.append(t, l, text) })
}

func (s side) append(t *transaction, l admin.List, text string) error {
	of := &listTables[l]
	err := of.make(t)
	if err == nil {
		err = t.exec("INSERT INTO "+of.name+" (prefix, at, text) VALUES (?, ?, ?)", s.prefix, int64(t.now), text)
	}
	if err == nil {
		err = t.exec("DELETE FROM "+of.name+" WHERE prefix = ? AND number <= (SELECT number FROM "+of.name+
			" WHERE prefix = ? ORDER BY number DESC LIMIT 1 OFFSET ?)", s.prefix, s.prefix, l.Kept())
	}
	return err
}

// Lines implements [admin.SideTable].
func (s side) Lines(ctx context.Context, l admin.List, most int) (lines []admin.JournalEntry, damaged int, err error) {
	err = s.readTable(ctx, &listTables[l], func(t *transaction) error {
		lines, damaged = nil, 0
		// Texts that are too long are not read.
		rows, err := t.query(`SELECT CASE typeof(at) WHEN 'integer' THEN at ELSE 0 END,
			CASE WHEN typeof(text) = 'text' AND octet_length(text) <= ? THEN text ELSE '' END
			FROM `+listTables[l].name+` WHERE prefix = ? ORDER BY number DESC LIMIT ?`,
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
