package filestore

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func recordOf(key store.Key, state *store.State, now store.Instant) admin.Record {
	return admin.Record{Key: key, Value: state.AppendRecord(nil), Expires: state.UnusedAt(now).Time()}
}

// Delete implements [admin.Keyspace] in one transaction.
func (s *Store) Delete(ctx context.Context, records ...admin.Record) (deleted int, changed []admin.Record, err error) {
	var foreign []error
	err = s.transact(ctx, false, admin.KeysOf(records), func(b *batch) error {
		deleted, changed, foreign = 0, nil, nil
		for i := range records {
			r, err := b.load(records[i].Key)
			if errors.Is(err, store.ErrForeign) {
				foreign = append(foreign, err)
				continue
			}
			if err != nil {
				return err
			}
			if r.state.Used(b.now) > 0 {
				deleted++
				if found := recordOf(r.key, &r.state, b.now); records[i].Value != nil && !bytes.Equal(found.Value, records[i].Value) {
					changed = append(changed, found)
				}
			}
			if !r.state.IsZero() {
				r.state, r.changed = store.State{}, true
			}
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	return deleted, changed, errors.Join(foreign...)
}

// Adjust implements [admin.Keyspace] in one transaction.
func (s *Store) Adjust(ctx context.Context, adjustments ...admin.Adjustment) ([]admin.Adjusted, error) {
	adjustments = slices.Clone(adjustments)
	creates := false
	for i := range adjustments {
		if err := adjustments[i].Normalize(); err != nil {
			return nil, err
		}
		creates = creates || !adjustments[i].OnlyLess && adjustments[i].Used > 0
	}
	results := make([]admin.Adjusted, len(adjustments))
	var foreign []error
	err := s.write(ctx, &job{creates: creates, do: func(b *batch) error {
		clear(results)
		foreign = nil
		for i := range adjustments {
			a := &adjustments[i]
			r, err := b.load(a.Key)
			if errors.Is(err, store.ErrForeign) {
				foreign = append(foreign, err)
				continue
			}
			if err != nil {
				return err
			}
			var held admin.Record
			if a.Kept != nil && !r.state.IsZero() {
				held = recordOf(r.key, &r.state, b.now)
			}
			before, changed := a.Apply(&r.state, b.now)
			results[i] = admin.Adjusted{Done: true, Before: before, After: r.state.Used(b.now)}
			if changed && before > 0 && !bytes.Equal(held.Value, a.Kept) {
				results[i].Record = held
			}
			r.changed = r.changed || changed
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return results, errors.Join(foreign...)
}

// Import implements [admin.Keyspace] in one transaction.
func (s *Store) Import(ctx context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	for i := range records {
		if err := records[i].Check(); err != nil {
			return nil, err
		}
	}
	outcomes := make([]admin.ImportOutcome, len(records))
	err := s.transact(ctx, true, admin.KeysOf(records), func(b *batch) error {
		for i := range records {
			var imported store.State
			if err := imported.DecodeRecord(records[i].Value); err != nil {
				return err
			}
			r, err := b.load(records[i].Key)
			switch {
			case errors.Is(err, store.ErrForeign):
				outcomes[i] = admin.Foreign
			case err != nil:
				return err
			case imported.Used(b.now) == 0:
				outcomes[i] = admin.Lapsed
			case r.state.Used(b.now) > 0 && bytes.Equal(r.state.AppendRecord(nil), records[i].Value):
				outcomes[i] = admin.AlreadyThere
			case r.state.Used(b.now) > 0 && !replace:
				outcomes[i] = admin.InUse
			default:
				outcomes[i] = admin.Imported
				r.state, r.changed = imported, true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// transact calls do in a transaction that writes. It creates a missing file if create is set; without create, a
// missing file has no keys.
func (s *Store) transact(ctx context.Context, create bool, keys []store.Key, do func(b *batch) error) error {
	for _, key := range keys {
		if err := key.Validate(); err != nil {
			return err
		}
	}
	return s.write(ctx, &job{creates: create, do: do})
}
