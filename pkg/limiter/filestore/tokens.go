package filestore

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/internal/recordformat"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// findToken finds the record of a token. It reads one byte more than the longest record, so that a longer value is
// refused.
var findToken = fmt.Sprintf("SELECT substr(record, 1, %d) FROM tokens WHERE prefix = ? AND token = ?",
	recordformat.TokenHeaderSize+store.MaxRequests*recordformat.TokenChargeSize+1)

const (
	insertToken = `INSERT INTO tokens (prefix, token, record, ends) VALUES (?, ?, ?, ?)
		ON CONFLICT (prefix, token) DO UPDATE SET record = excluded.record, ends = excluded.ends`
	deleteToken   = "DELETE FROM tokens WHERE prefix = ? AND token = ?"
	reclaimTokens = "DELETE FROM tokens WHERE rowid IN (SELECT rowid FROM tokens WHERE ends <= ?+0 ORDER BY ends " +
		"LIMIT ?)"
)

// loadToken returns the record of token, "" for none.
func (t *transaction) loadToken(token string) (record store.TokenRecord, err error) {
	if token == "" || t.connection == nil {
		return record, nil
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
