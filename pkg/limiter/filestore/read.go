package filestore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// read calls do in a transaction that only reads, so that do sees one instant. It waits for no writer. It does not
// call do if the file is missing.
func (s *Store) read(ctx context.Context, do func(tx *sql.Conn) error) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	if err := s.takeTurn(ctx, &s.reader, nil); err != nil {
		return err
	}
	defer s.reader.giveTurn()
	err := s.open(ctx, &s.reader, false)
	if errors.Is(err, errMissing) {
		return nil
	}
	if err == nil {
		err = s.retryBusy(ctx, func() error {
			if err := s.reader.exec("BEGIN"); err != nil {
				return err
			}
			defer func() { _ = s.reader.exec("ROLLBACK") }()
			return do(s.reader.conn)
		})
	}
	return s.translate(ctx, err, false)
}

// peek gives the answer that a take would get.
func (s *Store) peek(ctx context.Context, reqs []store.Request, decisions []store.Decision) error {
	states := make([]*store.State, len(reqs))
	var record store.TokenRecord
	for i := range states {
		states[i] = new(store.State)
	}
	err := s.read(ctx, func(tx *sql.Conn) (err error) {
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
	now := store.InstantOf(s.clock())
	_, err = store.Decide(store.Peek, reqs, states, decisions, &record, now)
	return err
}

func (s *Store) readState(ctx context.Context, tx *sql.Conn, key store.Key, state *store.State) error {
	*state = store.State{}
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
