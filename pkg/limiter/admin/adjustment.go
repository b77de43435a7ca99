package admin

import "github.com/limitctl/limitctl/pkg/limiter/store"

// Adjustment sets the usage of one key, for operators; [store.Adjust] adjusts the keys of one call together. See
// [Adjuster].
type Adjustment struct {
	Key store.Key
	// Limit is the limit to charge if units are missing.
	Limit store.Limit
	// Used is the wanted usage in units, from 0 to the capacity of Limit.
	Used int64
	// OnlyLess never raises the usage.
	OnlyLess bool
	// Kept is the value of the record that the caller has kept, for instance in a backup; nil for none. It is empty
	// if the caller has kept that nothing was in use.
	Kept []byte
}

// Normalize fills in the defaults of a's limit and name, and returns a [store.ErrInvalid] if something is out of
// bounds.
func (a *Adjustment) Normalize() error {
	req := store.Request{Key: a.Key, Limit: a.Limit, Cost: a.Used}
	err := req.Normalize(store.Adjust)
	a.Key, a.Limit = req.Key, req.Limit
	return err
}

// Apply adjusts s at now. It returns the usage before, and whether s has changed. Its twin is lua/adjust.lua.
func (a *Adjustment) Apply(s *store.State, now store.Instant) (before int64, changed bool) {
	before = s.Used(now)
	return before, s.Adjust(a.Limit, a.Wanted(before), now)
}

// Wanted returns the usage that a makes of a usage of used.
func (a *Adjustment) Wanted(used int64) int64 {
	if a.OnlyLess {
		return min(used, a.Used)
	}
	return a.Used
}

// Adjusted is the result of an adjustment of one key.
type Adjusted struct {
	// Done: the store has handled the key. It is false after an error, and for a foreign value, which stays as it
	// is.
	Done bool
	// Before and After are the units in use, rounded up, just before and after. They are equal exactly if the key
	// did not change.
	Before, After int64
	// Record is what the key held before the change, if that is not what the caller has kept. Otherwise it has no
	// Value.
	Record Record
}
