package filestore

import (
	"context"
	"errors"
	"iter"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// page is how many keys a scan reads at once; between pages others can write.
const page = 500

// found is one key of a scan, described or foreign.
type found struct {
	entry limiter.Entry
	err   error
}

// Scan implements [limiter.Keyspace]. Each page of it is one instant.
func (s *Store) Scan(ctx context.Context, p limiter.Pattern) iter.Seq2[limiter.Entry, error] {
	return func(yield func(limiter.Entry, error) bool) {
		var last limiter.Key
		for {
			entries, next, err := s.readPage(ctx, p, last)
			if err != nil {
				if !errors.Is(err, errMissing) {
					yield(limiter.Entry{}, s.translate(err, false))
				}
				return
			}
			for _, f := range entries {
				if !yield(f.entry, f.err) {
					return
				}
			}
			if last = next; last == (limiter.Key{}) {
				return
			}
		}
	}
}

// readPage describes the keys after a key, and returns the one to go on after,
// which is zero at the end.
func (s *Store) readPage(ctx context.Context, p limiter.Pattern, after limiter.Key) (entries []found, next limiter.Key, err error) {
	if err := s.takeTurn(ctx); err != nil {
		return nil, next, err
	}
	defer s.giveTurn()
	if err := s.open(ctx, false); err != nil {
		return nil, next, err
	}
	query := "SELECT subject, name, record FROM limits WHERE prefix = ? AND (subject, name) > (?, ?)"
	args := []any{s.prefix, after.Subject, after.Name}
	if subject, exact := p.Exact(); exact {
		query += " AND subject = ?"
		args = append(args, subject)
	}
	query += " ORDER BY subject, name LIMIT ?"
	args = append(args, page)
	err = s.retryBusy(ctx, func() error {
		entries, next = entries[:0], limiter.Key{}
		rows, err := s.db.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		now := limiter.InstantOf(s.clock())
		n := 0
		for ; rows.Next(); n++ {
			var record []byte
			if err := rows.Scan(&next.Subject, &next.Name, &record); err != nil {
				return err
			}
			if !p.Match(next.Subject) {
				continue
			}
			if f := s.explain(next, record, now); f.err != nil || f.entry.Decision.Used > 0 {
				entries = append(entries, f)
			}
		}
		if n < page {
			next = limiter.Key{}
		}
		return rows.Err()
	})
	return entries, next, err
}

func (s *Store) explain(key limiter.Key, record []byte, now limiter.Instant) found {
	storeKey := limiter.StoreKey(s.prefix, key)
	var state limiter.State
	if err := state.DecodeRecord(record); err != nil {
		return found{limiter.Entry{Key: key, StoreKey: storeKey}, &limiter.ForeignError{StoreKey: storeKey, Holds: err.Error()}}
	}
	return found{limiter.NewEntry(key, storeKey, &state, now), nil}
}

// Delete implements [limiter.Keyspace] in one transaction.
func (s *Store) Delete(ctx context.Context, keys ...limiter.Key) (deleted int, err error) {
	for _, key := range keys {
		if err := key.Validate(); err != nil {
			return 0, err
		}
	}
	if err := s.takeTurn(ctx); err != nil {
		return 0, err
	}
	defer s.giveTurn()
	if err := s.open(ctx, false); errors.Is(err, errMissing) {
		return 0, nil
	} else if err != nil {
		return 0, s.translate(err, false)
	}
	var foreign []error
	committing := false
	err = s.retryBusy(ctx, func() error {
		deleted, foreign, committing = 0, nil, false
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		now := limiter.InstantOf(s.clock())
		for _, key := range keys {
			var state limiter.State
			err := s.load(ctx, tx, key, &state)
			if errors.Is(err, limiter.ErrForeign) {
				foreign = append(foreign, err)
				continue
			}
			if err != nil {
				return err
			}
			if state.Used(now) > 0 {
				deleted++
			}
			if !state.IsZero() {
				if err := s.save(ctx, tx, key, new(limiter.State), now); err != nil {
					return err
				}
			}
		}
		committing = true
		return tx.Commit()
	})
	if err != nil {
		return 0, s.translate(err, committing)
	}
	return deleted, errors.Join(foreign...)
}
