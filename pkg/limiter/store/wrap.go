package store

import (
	"context"
	"iter"
)

// KeepKeyspace returns wrapper, a Store that decides with the help of inner, and with
// it the keys of inner if that is a [Keyspace]: then the result is a Keyspace, too.
// Decide and Close are those of wrapper. A wrapper with keys of its own is returned as
// it is. What else inner has, such as a [DenialTable], can be reached through the result.
//
// Make every store that wraps another one in this way. Then an operator sees the same keys through it:
//
//	func WithAlarm(backend store.Store) store.Store {
//		return store.KeepKeyspace(&alarmStore{Store: backend}, backend)
//	}
//
//	type alarmStore struct{ store.Store } // with a Decide of its own
func KeepKeyspace(wrapper, inner Store) Store {
	if _, own := wrapper.(Keyspace); own {
		return wrapper
	}
	if w, kept := wrapper.(*storeWrapper); kept && w.inner == inner {
		return wrapper
	}
	around := storeWrapper{Store: wrapper, inner: inner}
	if keys, has := inner.(Keyspace); has {
		return &keyspaceWrapper{storeWrapper: around, keys: keys}
	}
	return &around
}

// storeWrapper decides as Store does and says what that wraps.
type storeWrapper struct {
	Store
	inner Store
}

// outside returns what decides.
func (w *storeWrapper) outside() Store { return w.Store }

// Unwrap returns the store inside.
func (w *storeWrapper) Unwrap() Store { return w.inner }

// keyspaceWrapper decides as Store does and has the keys of another.
type keyspaceWrapper struct {
	storeWrapper
	keys Keyspace
}

// Scan implements [Keyspace].
func (w *keyspaceWrapper) Scan(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	return w.keys.Scan(ctx, q)
}

// Delete implements [Keyspace].
func (w *keyspaceWrapper) Delete(ctx context.Context, records ...Record) (deleted int, changed []Record, err error) {
	return w.keys.Delete(ctx, records...)
}

// Adjust implements [Keyspace].
func (w *keyspaceWrapper) Adjust(ctx context.Context, adjustments ...Adjustment) ([]Adjusted, error) {
	return w.keys.Adjust(ctx, adjustments...)
}

// Import implements [Keyspace].
func (w *keyspaceWrapper) Import(ctx context.Context, replace bool, records ...Record) ([]ImportOutcome, error) {
	return w.keys.Import(ctx, replace, records...)
}

// reached returns store as a T, or the first that it wraps which is one.
func reached[T any](store Store) (found T, has bool) {
	for store != nil {
		if found, has = store.(T); has {
			return found, true
		}
		if w, wraps := store.(interface{ outside() Store }); wraps {
			if found, has = w.outside().(T); has {
				return found, true
			}
		}
		wrapper, wraps := store.(interface{ Unwrap() Store })
		if !wraps {
			break
		}
		store = wrapper.Unwrap()
	}
	return found, false
}
