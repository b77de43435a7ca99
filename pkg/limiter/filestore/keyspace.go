package filestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"

	"github.com/limitctl/limitctl/pkg/limiter"
)

func recordOf(key limiter.Key, state *limiter.State, now limiter.Instant) limiter.Record {
	return limiter.Record{Key: key, Value: state.AppendRecord(nil), Expires: state.UnusedAt(now).Time()}
}

// Delete implements [limiter.Keyspace] in one transaction.
func (s *Store) Delete(ctx context.Context, records ...limiter.Record) (deleted int, changed []limiter.Record, err error) {
	var foreign []error
	err = s.transact(ctx, keysOf(records), func(tx *sql.Tx, now limiter.Instant) error {
		deleted, changed, foreign = 0, nil, nil
		for i := range records {
			var state limiter.State
			err := s.load(ctx, tx, records[i].Key, &state)
			if errors.Is(err, limiter.ErrForeign) {
				foreign = append(foreign, err)
				continue
			}
			if err != nil {
				return err
			}
			if state.Used(now) > 0 {
				deleted++
				if r := recordOf(records[i].Key, &state, now); records[i].Value != nil && !bytes.Equal(r.Value, records[i].Value) {
					changed = append(changed, r)
				}
			}
			if !state.IsZero() {
				if err := s.save(ctx, tx, records[i].Key, new(limiter.State), now); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	return deleted, changed, errors.Join(foreign...)
}

// Import implements [limiter.Keyspace] in one transaction.
func (s *Store) Import(ctx context.Context, replace bool, records ...limiter.Record) ([]limiter.ImportOutcome, error) {
	for i := range records {
		if err := records[i].Check(); err != nil {
			return nil, err
		}
	}
	outcomes := make([]limiter.ImportOutcome, len(records))
	if err := s.makeFile(ctx); err != nil {
		return nil, err
	}
	err := s.transact(ctx, keysOf(records), func(tx *sql.Tx, now limiter.Instant) error {
		for i := range records {
			var imported, state limiter.State
			if err := imported.DecodeRecord(records[i].Value); err != nil {
				return err
			}
			err := s.load(ctx, tx, records[i].Key, &state)
			switch {
			case errors.Is(err, limiter.ErrForeign):
				outcomes[i] = limiter.Foreign
			case err != nil:
				return err
			case imported.Used(now) == 0:
				outcomes[i] = limiter.Lapsed
			case state.Used(now) > 0 && !replace:
				outcomes[i] = limiter.InUse
				if bytes.Equal(state.AppendRecord(nil), records[i].Value) {
					outcomes[i] = limiter.Imported
				}
			default:
				outcomes[i] = limiter.Imported
				if err := s.save(ctx, tx, records[i].Key, &imported, now); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// makeFile makes the file, if it is missing.
func (s *Store) makeFile(ctx context.Context) error {
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.giveTurn()
	if err := s.open(ctx, true); err != nil {
		return s.translate(ctx, err, false)
	}
	return nil
}

// transact calls do in a transaction, and again if it could not be committed for
// others that write. In a missing file there is nothing to do.
func (s *Store) transact(ctx context.Context, keys []limiter.Key, do func(tx *sql.Tx, now limiter.Instant) error) error {
	for _, key := range keys {
		if err := key.Validate(); err != nil {
			return err
		}
	}
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.giveTurn()
	if err := s.open(ctx, false); errors.Is(err, errMissing) {
		return nil
	} else if err != nil {
		return s.translate(ctx, err, false)
	}
	committing := false
	err := s.retryBusy(ctx, func() error {
		committing = false
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := do(tx, limiter.InstantOf(s.clock())); err != nil {
			return err
		}
		committing = true
		return tx.Commit()
	})
	return s.translate(ctx, err, committing)
}

func keysOf(records []limiter.Record) []limiter.Key {
	keys := make([]limiter.Key, len(records))
	for i := range records {
		keys[i] = records[i].Key
	}
	return keys
}
