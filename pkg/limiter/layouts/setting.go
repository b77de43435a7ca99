package layouts

import (
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Setting is one limit on its way to another number of units that remain: which store keys to
// read for it, what they say, and then what to write. A store that finds other values there
// when it is to write begins again.
type Setting struct {
	layout Setter
	found  Found
	key    store.Key // of the entry
}

// Setting begins to set a limit that a scan has found: its key, and one of its store keys. The
// error is a [store.ErrInvalid] if its layout is not among the sources, or cannot hold any
// number of units.
func (s Sources) Setting(key store.Key, storeKey string, limit store.Limit) (*Setting, error) {
	c, ok := s.named(storeKey, LayoutOf(key))
	if !ok {
		return nil, store.Invalidf("key %q does not belong to layout %s with these mappings", storeKey, LayoutOf(key))
	}
	layout, can := c.Layout.(Setter)
	if !can {
		return nil, store.Invalidf("the units that remain of key %q cannot be set: %s does not keep them in a form that allows it; "+
			"reset it whole", storeKey, LayoutOf(key))
	}
	return &Setting{layout, Found{StoreKey: storeKey, Key: c.key, Limit: limit}, key}, nil
}

// StoreKeys returns the store keys to read. now is what the server's clock shows.
func (s *Setting) StoreKeys(now store.Instant) []string {
	s.found.Now = now
	return s.layout.Together(s.found.StoreKey, s.found.Limit, now)
}

// Entry returns the limit with that key as the values of StoreKeys have it, with its own members in its
// record. in is false if nothing is in use.
func (s *Setting) Entry(key store.Key, values []Value) (entry admin.Entry, in bool, err error) {
	s.found.Values = values
	reading, err := decode(s.layout, &s.found)
	if err != nil {
		return entry, false, &store.ForeignError{StoreKey: s.found.StoreKey, Holds: notWritten(s.layout, err)}
	}
	for _, entry := range reading.Entries {
		if entry.Key == (store.Key{}) {
			entry.Key = s.found.Key
		}
		if entry.Key == key {
			if len(entry.Record.Members) == 0 {
				entry.Record.Members = partsOf(values)
			}
			return entry, true, nil
		}
	}
	return entry, false, nil
}

// Writes returns what to write so that so many units remain.
func (s *Setting) Writes(remaining int64) ([]Write, error) {
	found := s.found
	found.Key = s.key // a value can hold several limits
	return s.layout.SetRemaining(&found, remaining)
}
