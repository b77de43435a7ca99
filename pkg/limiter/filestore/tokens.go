package filestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
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

// decideCharging decides the calls for which [store.IsCharging] is true.
func (b *batch) decideCharging(op store.Op, reqs []store.Request, states []*store.State, decisions []store.Decision,
) (changed bool, err error) {
	var record store.TokenRecord
	token := reqs[0].Token
	if token != "" && b.connection != nil {
		if record, err = b.loadToken(token); err != nil {
			return false, err
		}
	}
	changes, err := store.DecideCharging(op, reqs, states, decisions, &record, b.now)
	if err == nil && changes.Token {
		err = b.saveToken(token, &record)
	}
	return changes.States, err
}

// loadToken returns the record of token. It makes the table if it is missing.
func (b *batch) loadToken(token string) (t store.TokenRecord, err error) {
	if !b.hasTokens {
		if err := b.execText(tokensSchema); err != nil {
			return t, err
		}
		b.hasTokens = true
	}
	found, err := b.queryRow(findToken, 1, b.prefix, token)
	if err != nil || found == nil {
		return t, err
	}
	record, _ := found[0].([]byte)
	return decodeToken(b.prefix, token, record)
}

func decodeToken(prefix, token string, record []byte) (store.TokenRecord, error) {
	t, err := store.DecodeTokenRecord(record)
	if err != nil {
		return t, &store.ForeignError{StoreKey: prefix + "!" + store.TokenName(token), Holds: err.Error()}
	}
	return t, nil
}

// saveToken saves the record of token, or deletes it if record is zero.
func (b *batch) saveToken(token string, record *store.TokenRecord) error {
	b.wrote = true
	if record.IsZero() {
		return b.execText(deleteToken, b.prefix, token)
	}
	err := b.execText(insertToken, b.prefix, token, record.AppendRecord(nil), int64(record.Expires))
	if err != nil {
		return err
	}
	return b.execText(reclaimTokens, int64(b.now), int64(reclaimed))
}

// readToken is loadToken for a reader.
func (s *Store) readToken(ctx context.Context, tx *sql.Tx, token string) (t store.TokenRecord, err error) {
	var tables int
	err = tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'tokens'").Scan(&tables)
	if err != nil || tables == 0 {
		return t, err
	}
	var record []byte
	err = tx.QueryRowContext(ctx, findToken, s.prefix, token).Scan(&record)
	if errors.Is(err, sql.ErrNoRows) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	return decodeToken(s.prefix, token, record)
}

// execText executes a statement that is not prepared.
func (c *connection) execText(text string, values ...driver.Value) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(context.Background(), text, c.named(values))
	return err
}

// queryRow returns the first row of a statement that is not prepared, nil if it has no rows.
func (c *connection) queryRow(text string, columns int, values ...driver.Value) ([]driver.Value, error) {
	rows, err := c.raw.(driver.QueryerContext).QueryContext(context.Background(), text, c.named(values))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return firstRow(rows, make([]driver.Value, columns))
}
