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
var journalTable = sideTable{name: "journal", of: "the journal", create: `CREATE TABLE IF NOT EXISTS journal (
	number INTEGER PRIMARY KEY, -- in the order of writing
	prefix TEXT    NOT NULL,
	at     INTEGER NOT NULL, -- µs since the epoch
	text   TEXT    NOT NULL
)`}

// AppendJournal implements [admin.Journal] in one transaction.
func (s *Store) AppendJournal(ctx context.Context, text string) error {
	if err := admin.CheckJournalText(text); err != nil {
		return err
	}
	return s.changeTable(ctx, journalTable, func(ctx context.Context, tx *sql.Tx, now store.Instant) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO journal (prefix, at, text) VALUES (?, ?, ?)", s.prefix, int64(now),
			text); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM journal WHERE prefix = ? AND number <= (SELECT number FROM journal WHERE prefix = ?
			ORDER BY number DESC LIMIT 1 OFFSET ?)`, s.prefix, s.prefix, admin.JournalKept)
		return err
	})
}

// ReadJournal implements [admin.Journal].
func (s *Store) ReadJournal(ctx context.Context, most int) (entries []admin.JournalEntry, damaged int, err error) {
	err = s.readTable(ctx, journalTable, func(tx *sql.Tx, _ store.Instant) error {
		entries, damaged = nil, 0 // it may be the second try
		// Texts that are too long are not read.
		rows, err := tx.QueryContext(ctx, `SELECT at, text FROM (SELECT number, CASE typeof(at) WHEN 'integer' THEN at ELSE 0 END AS at,
			CASE WHEN typeof(text) = 'text' AND octet_length(text) <= ? THEN text ELSE '' END AS text
			FROM journal WHERE prefix = ? ORDER BY number DESC LIMIT ?)`,
			admin.MaxJournalText, s.prefix, max(0, min(most, admin.JournalKept)))
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
