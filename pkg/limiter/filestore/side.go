package filestore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// side is the [admin.SideTable] of a store. Each call is a transaction.
type side struct{ *Store }

// recordTable is a table of records: its columns, or constants in their place.
type recordTable struct {
	name, key, value, created, ends string
	put                             string // the columns and values of a row, with the prefix and these four
}

var (
	identityTable = recordTable{"identities", "''", "id", "0", "0", "(prefix, id) VALUES (?1, CAST(?3 AS TEXT))"}
	overrideTable = recordTable{"overrides", "id", "record", "created", "ends",
		"(prefix, id, record, created, ends) VALUES (?1, ?2, CAST(?3 AS TEXT), ?4, ?5)"}
	publishedTable = recordTable{"published", "part", "record", "0", "ends",
		"(prefix, part, record, ends) VALUES (?1, ?2, ?3, ?5)"}
)

var recordTables = [...]*recordTable{admin.IdentityTable: &identityTable, admin.OverrideTable: &overrideTable,
	admin.ConfigTable: &publishedTable, admin.ReportTable: &publishedTable}

// rowKey returns the key of a row. Published configurations and reports share a table.
func rowKey(t admin.Table, name string) string {
	if recordTables[t] != &publishedTable {
		return name
	}
	return strings.TrimPrefix(t.Key(name), "{config}:")
}

// nameOf is the reverse of rowKey.
func nameOf(t admin.Table, key string) string {
	if t == admin.ConfigTable {
		return strings.TrimPrefix(strings.TrimPrefix(key, "head"), "v:")
	}
	return strings.TrimPrefix(key, rowKey(t, ""))
}

var listTables = [...]string{admin.JournalList: "journal", admin.HistoryList: "published_history"}

// read is [Store.read], which finds nothing in a missing file.
func (s side) read(ctx context.Context, do func(t *transaction) error) error {
	return s.Store.read(ctx, func(t *transaction) error {
		if t.connection == nil {
			return nil
		}
		return do(t)
	})
}

// Get implements [admin.SideTable].
func (s side) Get(ctx context.Context, of admin.Table, names ...string) (found []admin.TableRecord, now store.Instant,
	err error) {
	if err := of.Check(); err != nil {
		return nil, 0, err
	}
	now = store.InstantOf(s.clock())
	err = s.read(ctx, func(t *transaction) (err error) {
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
		CASE typeof(%[3]s) WHEN 'integer' THEN %[3]s ELSE -1 END,
		CASE typeof(%[4]s) WHEN 'integer' THEN %[4]s ELSE -1 END
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
	err = s.write(ctx, true, func(t *transaction) error {
		guard, err := s.get(t, c.Table, rowKey(c.Table, c.Guard), rowKey(c.Table, c.Guard))
		if err != nil || len(guard) == 0 && c.Was != "" || len(guard) > 0 && guard[0].Value != c.Was {
			return err
		}
		if err := t.exec(fmt.Sprintf("DELETE FROM %s WHERE %s > 0 AND %[2]s <= ?", of.name, of.ends),
			int64(t.now)); err != nil {
			return err
		}
		for _, name := range c.Drop {
			if err := t.exec("DELETE FROM "+of.name+" WHERE prefix = ? AND "+of.key+" = ?", s.prefix,
				rowKey(c.Table, name)); err != nil {
				return err
			}
		}
		for _, r := range c.Set {
			if r.Ends == 0 && r.Left > 0 {
				r.Ends = t.now + store.Instant(r.Left/time.Microsecond)
			}
			err := t.exec("INSERT OR REPLACE INTO "+of.name+" "+of.put, s.prefix, rowKey(c.Table, r.Name),
				[]byte(r.Value),
				int64(r.Created), int64(r.Ends))
			if err != nil {
				return err
			}
		}
		if c.Line != "" {
			err = t.append(admin.HistoryList, c.Line)
		}
		done = err == nil
		return err
	})
	return done && err == nil, err
}

// Append implements [admin.SideTable].
func (s side) Append(ctx context.Context, l admin.List, text string) error {
	return s.write(ctx, true, func(t *transaction) error { return t.append(l, text) })
}

func (t *transaction) append(l admin.List, text string) error {
	of := listTables[l]
	err := t.exec("INSERT INTO "+of+" (prefix, at, text) VALUES (?, ?, ?)", t.prefix, int64(t.now), text)
	if err == nil {
		err = t.exec("DELETE FROM "+of+" WHERE prefix = ?1 AND number <= (SELECT number FROM "+of+
			" WHERE prefix = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)", t.prefix, l.Kept())
	}
	return err
}

// Lines implements [admin.SideTable].
func (s side) Lines(ctx context.Context, l admin.List, most int) (lines []admin.JournalEntry, damaged int, err error) {
	err = s.read(ctx, func(t *transaction) error {
		lines, damaged = nil, 0
		// Texts that are too long are not read.
		rows, err := t.query(`SELECT CASE typeof(at) WHEN 'integer' THEN at ELSE 0 END,
			CASE WHEN typeof(text) = 'text' AND octet_length(text) <= ? THEN text ELSE '' END
			FROM `+listTables[l]+` WHERE prefix = ? ORDER BY number DESC LIMIT ?`,
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
