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
	err = s.change(ctx, false, admin.KeysOf(records), func(t *transaction) error {
		for i := range records {
			r, err := t.load(records[i].Key)
			if errors.Is(err, store.ErrForeign) {
				foreign = append(foreign, err)
				continue
			}
			if err != nil {
				return err
			}
			if r.state.Used(t.now) > 0 {
				deleted++
				if found := recordOf(r.key, &r.state, t.now); records[i].Value != nil && !bytes.Equal(found.Value, records[i].Value) {
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
	err := s.write(ctx, creates, func(t *transaction) error {
		for i := range adjustments {
			a := &adjustments[i]
			r, err := t.load(a.Key)
			if errors.Is(err, store.ErrForeign) {
				foreign = append(foreign, err)
				continue
			}
			if err != nil {
				return err
			}
			var held admin.Record
			if a.Kept != nil && !r.state.IsZero() {
				held = recordOf(r.key, &r.state, t.now)
			}
			before, changed := a.Apply(&r.state, t.now)
			results[i] = admin.Adjusted{Done: true, Before: before, After: r.state.Used(t.now)}
			if changed && before > 0 && !bytes.Equal(held.Value, a.Kept) {
				results[i].Record = held
			}
			r.changed = r.changed || changed
		}
		return nil
	})
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
	err := s.change(ctx, true, admin.KeysOf(records), func(t *transaction) error {
		for i := range records {
			var imported store.State
			if err := imported.DecodeRecord(records[i].Value); err != nil {
				return err
			}
			r, err := t.load(records[i].Key)
			switch {
			case errors.Is(err, store.ErrForeign):
				outcomes[i] = admin.Foreign
			case err != nil:
				return err
			case imported.Used(t.now) == 0:
				outcomes[i] = admin.Lapsed
			case r.state.Used(t.now) > 0 && bytes.Equal(r.state.AppendRecord(nil), records[i].Value):
				outcomes[i] = admin.AlreadyThere
			case r.state.Used(t.now) > 0 && !replace:
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

// change calls do in a transaction that writes, if the keys are valid.
func (s *Store) change(ctx context.Context, creates bool, keys []store.Key, do func(t *transaction) error) error {
	for _, key := range keys {
		if err := key.Validate(); err != nil {
			return err
		}
	}
	return s.write(ctx, creates, do)
}
