package filestore

import (
	"context"
	"errors"

	"github.com/limitctl/limitctl/internal/keystates"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// change changes keys in one transaction.
func (s *Store) change(ctx context.Context) keystates.Change {
	return func(creates bool, do func(keystates.Each) error) error {
		return s.write(ctx, creates, func(t *transaction) error {
			return do(func(key store.Key, change func(*store.State, store.Instant) bool) error {
				r, err := t.load(key)
				if err == nil {
					r.changed = change(&r.state, t.now) || r.changed
				}
				return err
			})
		})
	}
}

// Delete implements [admin.Keyspace] in one transaction.
func (s *Store) Delete(ctx context.Context, records ...admin.Record) (deleted int, changed []admin.Record, err error) {
	return s.change(ctx).Delete(records)
}

// Adjust implements [admin.Adjuster] in one transaction.
func (s *Store) Adjust(ctx context.Context, adjustments ...admin.Adjustment) ([]admin.Adjusted, error) {
	results, err := s.change(ctx).Adjust(adjustments)
	if err != nil && !errors.Is(err, store.ErrForeign) {
		return nil, err
	}
	return results, err
}

// Import implements [admin.Keyspace] in one transaction.
func (s *Store) Import(ctx context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	outcomes, err := s.change(ctx).Import(replace, records)
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}
