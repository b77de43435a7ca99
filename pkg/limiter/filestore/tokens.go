package filestore

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/internal/recordformat"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// tokenTable is the table of tokens, which the first call with a token makes. Older programs without tokens leave it unchanged.
var tokenTable = sideTable{"tokens", `CREATE TABLE IF NOT EXISTS tokens (
	prefix TEXT    NOT NULL,
	token  TEXT    NOT NULL,
	record BLOB    NOT NULL,
	ends   INTEGER NOT NULL, -- µs since the epoch
	PRIMARY KEY (prefix, token)
)`}

// findToken finds the record of a token. It reads one byte more than the longest record, so that a longer value is
// refused.
var findToken = fmt.Sprintf("SELECT substr(record, 1, %d) FROM tokens WHERE prefix = ? AND token = ?",
	recordformat.TokenHeaderSize+store.MaxRequests*recordformat.TokenChargeSize+1)

const (
	tokensByEnd = "CREATE INDEX IF NOT EXISTS tokens_ends ON tokens (ends)"
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
		if record, err = t.loadToken(op, token); err != nil {
			return false, err
		}
	}
	changes, err := store.Decide(op, reqs, states, decisions, &record, t.now)
	if err == nil && changes.Token {
		err = t.saveToken(token, &record)
	}
	return changes.States, err
}

// loadToken returns the record of token. A writer makes the table if it is missing.
func (t *transaction) loadToken(op store.Op, token string) (record store.TokenRecord, err error) {
	if op != store.Peek {
		if err := errors.Join(t.exec(tokenTable.create), t.exec(tokensByEnd)); err != nil {
			return record, err
		}
	} else if has, err := tokenTable.exists(t); !has {
		return record, err
	}
	var held []byte
	if err = t.row(findToken, t.prefix, token).Scan(&held); errors.Is(err, sql.ErrNoRows) {
		return record, nil
	} else if err != nil {
		return record, err
	}
	if record, err = store.DecodeTokenRecord(held); err != nil {
		err = &store.ForeignError{StoreKey: t.prefix + "!" + store.TokenName(token), Holds: err.Error()}
	}
	return record, err
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
