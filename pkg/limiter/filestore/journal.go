package filestore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter"
)

var _ limiter.Journal = (*Store)(nil)

// journalTable has a row for each entry of the journals of all prefixes. An older limitctl
// does not look at this table.
const journalTable = `CREATE TABLE IF NOT EXISTS journal (
	number INTEGER PRIMARY KEY, -- in the order of writing
	prefix TEXT    NOT NULL,
	at     INTEGER NOT NULL, -- µs since the epoch
	text   TEXT    NOT NULL
)`

// hasJournalTable says whether there is a table of the journal. It fails if that is not
// limitctl's.
func hasJournalTable(ctx context.Context, tx *sql.Tx) (bool, error) {
	var schema string
	err := tx.QueryRowContext(ctx, "SELECT coalesce(sql, '') FROM sqlite_master WHERE name = 'journal'").Scan(&schema)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err == nil && schema != strings.Replace(journalTable, "IF NOT EXISTS ", "", 1):
		return false, errors.New("its table of the journal is not limitctl's")
	}
	return err == nil, err
}

// AppendJournal implements [limiter.Journal] in one transaction.
func (s *Store) AppendJournal(ctx context.Context, text string) error {
	if err := limiter.CheckJournalText(text); err != nil {
		return err
	}
	return s.write(ctx, &job{creates: true, sql: func(tx *sql.Tx, now limiter.Instant) error {
		ctx := context.Background() // it is not given up in the middle
		if has, err := hasJournalTable(ctx, tx); err != nil {
			return err
		} else if !has {
			if _, err := tx.ExecContext(ctx, journalTable); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO journal (prefix, at, text) VALUES (?, ?, ?)", s.prefix, int64(now), text); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM journal WHERE prefix = ? AND number <= (SELECT number FROM journal WHERE prefix = ?
			ORDER BY number DESC LIMIT 1 OFFSET ?)`, s.prefix, s.prefix, limiter.JournalKept)
		return err
	}})
}

// ReadJournal implements [limiter.Journal].
func (s *Store) ReadJournal(ctx context.Context, most int) (entries []limiter.JournalEntry, damaged int, err error) {
	err = s.read(ctx, func(tx *sql.Tx) (err error) {
		entries, damaged = nil, 0 // it may be the second try
		if has, err := hasJournalTable(ctx, tx); !has {
			return err
		}
		// What is too long is left in the file.
		rows, err := tx.QueryContext(ctx, `SELECT at, text FROM (SELECT number, CASE typeof(at) WHEN 'integer' THEN at ELSE 0 END AS at,
			CASE WHEN typeof(text) = 'text' AND octet_length(text) <= ? THEN text ELSE '' END AS text
			FROM journal WHERE prefix = ? ORDER BY number DESC LIMIT ?)`,
			limiter.MaxJournalText, s.prefix, max(0, min(most, limiter.JournalKept)))
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
			if instant := limiter.Instant(at); at <= 0 || instant > limiter.MaxInstant || text == "" || !utf8.ValidString(text) {
				damaged++
			} else {
				entries = append(entries, limiter.JournalEntry{At: instant.Time(), Text: text})
			}
		}
		return rows.Err()
	})
	slices.Reverse(entries)
	return entries, damaged, err
}
