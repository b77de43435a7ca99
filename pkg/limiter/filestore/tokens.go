package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// tokensSchema is made by the first call that carries a token. Programs that know no tokens
// leave it as it is.
const tokensSchema = `CREATE TABLE IF NOT EXISTS tokens (
	prefix TEXT    NOT NULL,
	token  TEXT    NOT NULL,
	record BLOB    NOT NULL,
	ends   INTEGER NOT NULL, -- µs since the epoch
	PRIMARY KEY (prefix, token)
); CREATE INDEX IF NOT EXISTS tokens_ends ON tokens (ends)`

// decideSpecial decides what [limiter.IsSpecial], in one transaction.
func (s *Store) decideSpecial(ctx context.Context, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.giveTurn()
	err := s.open(ctx, op == limiter.Take || op == limiter.Charge || op == limiter.TakeUpTo)
	if errors.Is(err, errMissing) {
		_, err := limiter.DecideSpecial(op, reqs, unusedStates(len(reqs)), decisions, new(limiter.TokenRecord), limiter.InstantOf(s.clock()))
		return err
	}
	committing := false
	if err == nil {
		err = s.retryBusy(ctx, func() error {
			committing = false
			tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: op == limiter.Peek})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := s.changeWithToken(ctx, tx, op, reqs, decisions); err != nil || op == limiter.Peek {
				return err
			}
			committing = true
			return tx.Commit()
		})
	}
	if errors.Is(err, limiter.ErrInvalid) || errors.Is(err, limiter.ErrUnknownToken) {
		return err // which is not the file's
	}
	return s.translate(ctx, err, committing)
}

func (s *Store) changeWithToken(
	ctx context.Context, tx *sql.Tx, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision,
) error {
	var record limiter.TokenRecord
	token := reqs[0].Token
	if token != "" {
		var err error
		if record, err = s.loadToken(ctx, tx, token, op != limiter.Peek); err != nil {
			return err
		}
	}
	var changes limiter.Changes
	var at limiter.Instant
	err := s.change(ctx, tx, reqs, func(states []*limiter.State, now limiter.Instant) (changed bool, err error) {
		at = now
		changes, err = limiter.DecideSpecial(op, reqs, states, decisions, &record, now)
		return changes.States, err
	})
	if err != nil || !changes.Token {
		return err
	}
	return s.saveToken(ctx, tx, token, &record, at)
}

// loadToken returns what is remembered of token. It makes the table if that may be needed.
func (s *Store) loadToken(ctx context.Context, tx *sql.Tx, token string, create bool) (t limiter.TokenRecord, err error) {
	if create {
		if _, err := tx.ExecContext(ctx, tokensSchema); err != nil {
			return t, err
		}
	} else {
		var tables int
		err := tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'tokens'").Scan(&tables)
		if err != nil || tables == 0 {
			return t, err
		}
	}
	const longest = limiter.TokenHeaderSize + limiter.MaxRequests*limiter.TokenPartSize
	var record []byte
	err = tx.QueryRowContext(ctx,
		fmt.Sprintf("SELECT substr(record, 1, %d) FROM tokens WHERE prefix = ? AND token = ?", longest), s.prefix, token).Scan(&record)
	if errors.Is(err, sql.ErrNoRows) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	if t, err = limiter.DecodeTokenRecord(record); err != nil {
		return t, &limiter.ForeignError{StoreKey: s.prefix + "!" + limiter.TokenName(token), Holds: err.Error()}
	}
	return t, nil
}

// saveToken remembers record for token, or forgets token if record is zero.
func (s *Store) saveToken(ctx context.Context, tx *sql.Tx, token string, record *limiter.TokenRecord, now limiter.Instant) error {
	if record.IsZero() {
		_, err := tx.ExecContext(ctx, "DELETE FROM tokens WHERE prefix = ? AND token = ?", s.prefix, token)
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO tokens (prefix, token, record, ends) VALUES (?, ?, ?, ?)
		ON CONFLICT (prefix, token) DO UPDATE SET record = excluded.record, ends = excluded.ends`,
		s.prefix, token, record.AppendRecord(nil), int64(record.Expires))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM tokens WHERE rowid IN (SELECT rowid FROM tokens WHERE ends <= ? ORDER BY ends LIMIT ?)",
		int64(now), reclaimed)
	return err
}
