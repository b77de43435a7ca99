// Package keystates changes keys as operators ask for, in stores that hold [store.State]s themselves.
package keystates

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Each calls change with the state of a key and the time, and keeps the state if it has changed. It may call change
// again if there was no room.
type Each func(key store.Key, change func(s *store.State, now store.Instant) (changed bool)) error

// Operator is the part of an [admin.Keyspace] that changes keys.
type Operator struct {
	change Change
	whole  bool
}

// Change calls do with what gives it the states of keys. creates says whether keys can become used that were not.
type Change func(ctx context.Context, creates bool, do func(each Each) error) error

// NewOperator returns an Operator. whole says that nothing has changed if change fails. Otherwise the keys before the
// error have.
func NewOperator(change Change, whole bool) Operator { return Operator{change, whole} }

// keys calls do with n keys, and returns the errors of those that hold something else, joined.
func (o Operator) keys(ctx context.Context, creates bool, n int, do func(each Each, i int) error) (foreign, err error) {
	var left []error
	err = o.change(ctx, creates, func(each Each) error {
		for i := range n {
			if err := do(each, i); errors.Is(err, store.ErrForeign) {
				left = append(left, err)
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(left...), err
}

// recordOf returns the record of a key with a state.
func recordOf(key store.Key, s *store.State, now store.Instant) admin.Record {
	return admin.Record{Key: key, Value: s.AppendRecord(nil), Expires: s.UnusedAt(now).Time()}
}

// Entry is [admin.NewEntry] with what a query asks for besides.
func Entry(q *admin.Query, key store.Key, storeKey string, s *store.State, now store.Instant) admin.Entry {
	e := admin.NewEntry(q, key, storeKey, s, now)
	if q.Bytes {
		e.Bytes = int64(len(key.Subject) + len(key.Name) + len(s.AppendRecord(nil)))
	}
	if q.Records {
		e.Record = recordOf(key, s, now)
	}
	if e.State = nil; q.States && s.IsShort() {
		e.State = s.Clone()
	}
	return e
}

// Delete implements [admin.Keyspace].
func (o Operator) Delete(ctx context.Context, records ...admin.Record) (deleted int, changed []admin.Record,
	err error) {
	for i := range records {
		if err := records[i].Key.Validate(); err != nil {
			return 0, nil, err
		}
	}
	foreign, err := o.keys(ctx, false, len(records), func(each Each, i int) error {
		r := &records[i]
		return each(r.Key, func(s *store.State, now store.Instant) bool {
			if s.Used(now) > 0 {
				deleted++
				if held := recordOf(r.Key, s, now); r.Value != nil && !bytes.Equal(held.Value, r.Value) {
					changed = append(changed, held)
				}
			}
			wasThere := !s.IsZero()
			*s = store.State{}
			return wasThere
		})
	})
	if err != nil {
		return 0, nil, err
	}
	return deleted, changed, foreign
}

// Adjust implements [admin.Keyspace].
func (o Operator) Adjust(ctx context.Context, adjustments ...admin.Adjustment) ([]admin.Adjusted, error) {
	adjustments = slices.Clone(adjustments)
	creates := false
	for i := range adjustments {
		if err := adjustments[i].Normalize(); err != nil {
			return nil, err
		}
		creates = creates || adjustments[i].Used > 0
	}
	results := make([]admin.Adjusted, len(adjustments))
	foreign, err := o.keys(ctx, creates, len(adjustments), func(each Each, i int) error {
		a := &adjustments[i]
		err := each(a.Key, func(s *store.State, now store.Instant) bool {
			var held admin.Record
			if a.Kept != nil && !s.IsZero() {
				held = recordOf(a.Key, s, now)
			}
			before, changed := a.Apply(s, now)
			results[i] = admin.Adjusted{Done: true, Before: before, After: s.Used(now)}
			if changed && before > 0 && !bytes.Equal(held.Value, a.Kept) {
				results[i].Record = held
			}
			return changed
		})
		if err != nil {
			results[i] = admin.Adjusted{}
		}
		return err
	})
	switch {
	case err != nil && o.whole:
		return nil, err
	case err != nil:
		return results, err
	}
	return results, foreign
}

// Import implements [admin.Keyspace].
func (o Operator) Import(ctx context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	states := make([]store.State, len(records))
	for i := range records {
		var err error
		if states[i], err = records[i].Decode(); err != nil {
			return nil, err
		}
	}
	outcomes := make([]admin.ImportOutcome, len(records))
	_, err := o.keys(ctx, true, len(records), func(each Each, i int) error {
		err := each(records[i].Key, func(s *store.State, now store.Instant) bool {
			inUse := s.Used(now) > 0
			switch {
			case states[i].Used(now) == 0:
				outcomes[i] = admin.Lapsed
			case inUse && bytes.Equal(s.AppendRecord(nil), records[i].Value):
				outcomes[i] = admin.AlreadyThere
			case inUse && !replace:
				outcomes[i] = admin.InUse
			default:
				outcomes[i] = admin.Imported
				*s = states[i]
				return true
			}
			return false
		})
		if err != nil {
			outcomes[i] = admin.NotKnown
		}
		if errors.Is(err, store.ErrForeign) {
			outcomes[i] = admin.Foreign
		}
		return err
	})
	if err != nil && o.whole {
		return nil, err
	}
	return outcomes, err
}
