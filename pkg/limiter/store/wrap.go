package store

// Wrap returns wrapper, a Store that decides with the help of inner, as a Store through which [As] finds
// what inner has, such as its keys. Decide and Close are those of wrapper.
//
// Make every store that wraps another one in this way. Then an operator sees the same keys through it:
//
//	func WithAlarm(backend store.Store) store.Store {
//		return store.Wrap(&alarmStore{Store: backend}, backend)
//	}
//
//	type alarmStore struct{ store.Store } // with a Decide of its own
//
// It panics if one of them is nil.
func Wrap(wrapper, inner Store) Store {
	if wrapper == nil || inner == nil {
		panic("store.Wrap: wrapper or inner is nil")
	}
	if w, wraps := wrapper.(*wrapped); wraps && w.inner == inner {
		return wrapper
	}
	return &wrapped{Store: wrapper, inner: inner}
}

// wrapped decides as Store does and says what that wraps.
type wrapped struct {
	Store
	inner Store
}

// Unwrap returns the store inside.
func (w *wrapped) Unwrap() Store { return w.inner }

// As returns store as a T, or the first store inside it that is a T. It finds the optional parts of a store, since a
// wrapper has only the methods of a Store.
func As[T any](store Store) (found T, has bool) {
	for store != nil {
		if found, has = store.(T); has {
			return found, true
		}
		switch s := store.(type) {
		case *wrapped:
			if found, has = s.Store.(T); has {
				return found, true
			}
			store = s.inner
		case interface{ Unwrap() Store }:
			store = s.Unwrap()
		default:
			return found, false
		}
	}
	return found, false
}
