package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/internal/recordformat"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// tokensSchema is the table of tokens, which the first call with a token makes. Older programs without tokens leave
// it unchanged.
const tokensSchema = `CREATE TABLE IF NOT EXISTS tokens (
	prefix TEXT    NOT NULL,
	token  TEXT    NOT NULL,
	record BLOB    NOT NULL,
	ends   INTEGER NOT NULL, -- µs since the epoch
	PRIMARY KEY (prefix, token)
); CREATE INDEX IF NOT EXISTS tokens_ends ON tokens (ends)`

// findToken finds the record of a token. It reads one byte more than the longest record, so that a longer value is
// refused.
var findToken = fmt.Sprintf("SELECT substr(record, 1, %d) FROM tokens WHERE prefix = ? AND token = ?",
	recordformat.TokenHeaderSize+store.MaxRequests*recordformat.TokenChargeSize+1)

const (
	insertToken = `INSERT INTO tokens (prefix, token, record, ends) VALUES (?, ?, ?, ?)
		ON CONFLICT (prefix, token) DO UPDATE SET record = excluded.record, ends = excluded.ends`
	deleteToken   = "DELETE FROM tokens WHERE prefix = ? AND token = ?"
	reclaimTokens = "DELETE FROM tokens WHERE rowid IN (SELECT rowid FROM tokens WHERE ends <= ?+0 ORDER BY ends LIMIT ?)"
)

// decideAll decides reqs, and keeps what their token remembers.
func (t *transaction) decideAll(op store.Op, reqs []store.Request, states []*store.State, decisions []store.Decision,
) (changed bool, err error) {
	var record store.TokenRecord
	token := reqs[0].Token
	if token != "" && t.connection != nil {
		if record, err = t.loadToken(token); err != nil {
			return false, err
		}
	}
	changes, err := store.Decide(op, reqs, states, decisions, &record, t.now)
	if err == nil && changes.Token {
		err = t.saveToken(token, &record)
	}
	return changes.States, err
}

// loadToken returns the record of token. It makes the table if it is missing.
func (t *transaction) loadToken(token string) (record store.TokenRecord, err error) {
	if _, err := t.conn.ExecContext(context.Background(), tokensSchema); err != nil {
		return record, err
	}
	return scanToken(t.conn.QueryRowContext(context.Background(), findToken, t.prefix, token), t.prefix, token)
}

func scanToken(row *sql.Row, prefix, token string) (store.TokenRecord, error) {
	var record []byte
	err := row.Scan(&record)
	if errors.Is(err, sql.ErrNoRows) {
		return store.TokenRecord{}, nil
	}
	if err != nil {
		return store.TokenRecord{}, err
	}
	return decodeToken(prefix, token, record)
}

func decodeToken(prefix, token string, record []byte) (store.TokenRecord, error) {
	t, err := store.DecodeTokenRecord(record)
	if err != nil {
		return t, &store.ForeignError{StoreKey: prefix + "!" + store.TokenName(token), Holds: err.Error()}
	}
	return t, nil
}

// saveToken saves the record of token, or deletes it if record is zero.
func (t *transaction) saveToken(token string, record *store.TokenRecord) error {
	if record.IsZero() {
		return t.exec(deleteToken, t.prefix, token)
	}
	if err := t.exec(insertToken, t.prefix, token, record.AppendRecord(nil), int64(record.Expires)); err != nil {
		return err
	}
	return t.exec(reclaimTokens, int64(t.now), reclaimed)
}

// readToken is loadToken for a reader.
func (s *Store) readToken(ctx context.Context, tx *sql.Conn, token string) (store.TokenRecord, error) {
	var tables int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'tokens'").Scan(&tables)
	if err != nil || tables == 0 {
		return store.TokenRecord{}, err
	}
	return scanToken(tx.QueryRowContext(ctx, findToken, s.prefix, token), s.prefix, token)
}
