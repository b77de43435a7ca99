package filestore

import (
	"context"
	"database/sql"
	"slices"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.Journal = (*Store)(nil)

// journalTable has a row for each entry of the journals of all prefixes.
var journalTable = textTable("journal", "the journal")

// textTable is a table of texts in the order of writing, for all prefixes.
func textTable(name, of string) sideTable {
	return sideTable{name: name, of: of, create: `CREATE TABLE IF NOT EXISTS ` + name + ` (
	number INTEGER PRIMARY KEY, -- in the order of writing
	prefix TEXT    NOT NULL,
	at     INTEGER NOT NULL, -- µs since the epoch
	text   TEXT    NOT NULL
)`}
}

// AppendJournal implements [admin.Journal] in one transaction.
func (s *Store) AppendJournal(ctx context.Context, text string) error {
	if err := admin.CheckJournalText(text); err != nil {
		return err
	}
	return s.changeTable(ctx, journalTable, func(ctx context.Context, tx *sql.Conn, now store.Instant) error {
		return s.appendText(ctx, tx, journalTable, now, text, admin.JournalKept)
	})
}

// appendText adds a text to a table of texts, and removes what is more than kept.
func (s *Store) appendText(ctx context.Context, tx *sql.Conn, t sideTable, now store.Instant, text string, kept int) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO "+t.name+" (prefix, at, text) VALUES (?, ?, ?)", s.prefix, int64(now), text); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM "+t.name+" WHERE prefix = ? AND number <= (SELECT number FROM "+t.name+
		" WHERE prefix = ? ORDER BY number DESC LIMIT 1 OFFSET ?)", s.prefix, s.prefix, kept)
	return err
}

// ReadJournal implements [admin.Journal].
func (s *Store) ReadJournal(ctx context.Context, most int) (entries []admin.JournalEntry, damaged int, err error) {
	return s.readTexts(ctx, journalTable, max(0, min(most, admin.JournalKept)))
}

// readTexts returns the latest texts of a table.
func (s *Store) readTexts(ctx context.Context, t sideTable, most int) (entries []admin.JournalEntry, damaged int, err error) {
	err = s.readTable(ctx, t, func(tx *sql.Conn, _ store.Instant) error {
		entries, damaged = nil, 0
		// Texts that are too long are not read.
		rows, err := tx.QueryContext(ctx, `SELECT at, text FROM (SELECT number, CASE typeof(at) WHEN 'integer' THEN at ELSE 0 END AS at,
			CASE WHEN typeof(text) = 'text' AND octet_length(text) <= ? THEN text ELSE '' END AS text
			FROM `+t.name+` WHERE prefix = ? ORDER BY number DESC LIMIT ?)`,
			admin.MaxJournalText, s.prefix, most)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var at int64
			var text string
			if err := rows.Scan(&at, &text); err != nil {
				return err
			}
			if instant := store.Instant(at); at <= 0 || instant > store.MaxInstant || text == "" || !utf8.ValidString(text) {
				damaged++
			} else {
				entries = append(entries, admin.JournalEntry{At: instant.Time(), Text: text})
			}
		}
		return rows.Err()
	})
	slices.Reverse(entries)
	return entries, damaged, err
}
