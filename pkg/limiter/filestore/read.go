package filestore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// read calls do in a transaction that only reads, so that all it reads is of one instant. It
// waits for no writer. In a missing file there is nothing to do.
func (s *Store) read(ctx context.Context, do func(tx *sql.Tx) error) error {
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.giveTurn()
	err := s.open(ctx)
	if err == nil {
		err = s.retryBusy(ctx, func() error {
			tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			return do(tx)
		})
	}
	if errors.Is(err, errMissing) {
		return nil
	}
	return s.translate(ctx, err, false)
}

// peek answers what a take would.
func (s *Store) peek(ctx context.Context, reqs []limiter.Request, decisions []limiter.Decision) error {
	states := make([]*limiter.State, len(reqs))
	var record limiter.TokenRecord
	for i := range states {
		states[i] = new(limiter.State)
	}
	err := s.read(ctx, func(tx *sql.Tx) (err error) {
		for i := range reqs {
			if err := s.readState(ctx, tx, reqs[i].Key, states[i]); err != nil {
				return err
			}
		}
		if token := reqs[0].Token; token != "" {
			record, err = s.readToken(ctx, tx, token)
		}
		return err
	})
	if err != nil {
		return err
	}
	now := limiter.InstantOf(s.clock())
	if limiter.IsSpecial(limiter.Peek, reqs) {
		_, err := limiter.DecideSpecial(limiter.Peek, reqs, states, decisions, &record, now)
		return err
	}
	limiter.Decide(limiter.Peek, reqs, states, decisions, now)
	return nil
}

func (s *Store) readState(ctx context.Context, tx *sql.Tx, key limiter.Key, state *limiter.State) error {
	*state = limiter.State{}
	var id, until int64
	var record []byte
	err := tx.QueryRowContext(ctx, findRow, s.prefix, key.Subject, key.Name).Scan(&id, &until, &record)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return decode(s.prefix, key, state, record)
}
