package admin

import "github.com/limitctl/limitctl/pkg/limiter/store"

// Adjustment says how many units of a key are to be in use. It is an operator's correction of
// one key, where [store.Adjust] corrects the keys of one call together; see [Keyspace.Adjust].
type Adjustment struct {
	Key store.Key
	// Limit is the one to charge by, if units are missing.
	Limit store.Limit
	// Used is how many units to leave in use, from 0 to the capacity of Limit.
	Used int64
	// OnlyLess: a key with fewer units in use is left as it is. OnlyMore: one with more is, so
	// that doing it twice charges once, whatever is taken meanwhile. Both cannot be.
	OnlyLess, OnlyMore bool
	// Kept is the value of the key's record that the caller has kept, for instance in a
	// backup; nil for none. It is empty where the caller has kept that nothing was in use.
	Kept []byte
	// Parts are those of the key's record where another limiter wrote it. Those with a Dump are
	// what the caller has kept.
	Parts []Part
}

// Normalize fills in the defaults of a's limit and name, and reports, as a [store.ErrInvalid], what
// is out of bounds.
func (a *Adjustment) Normalize() error {
	req := store.Request{Key: a.Key, Limit: a.Limit, Cost: a.Used}
	err := req.Normalize(store.Adjust)
	a.Key, a.Limit = req.Key, req.Limit
	if err == nil && a.OnlyLess && a.OnlyMore {
		return store.Invalidf("key %s is to be adjusted to less alone and to more alone", a.Key)
	}
	return err
}

// Apply makes the adjustment of s at now. It returns how many units were in use before, and
// whether s has changed. Its twin is lua/adjust.lua.
func (a *Adjustment) Apply(s *store.State, now store.Instant) (before int64, changed bool) {
	before = s.Used(now)
	return before, s.Adjust(a.Limit, a.Wanted(before), now)
}

// Wanted returns how many units a leaves in use where so many are.
func (a *Adjustment) Wanted(used int64) int64 {
	switch {
	case a.OnlyLess:
		return min(used, a.Used)
	case a.OnlyMore:
		return max(used, a.Used)
	}
	return a.Used
}

// Adjusted is what became of a key that was to be adjusted.
type Adjusted struct {
	// Done: the store has said what became of the key. It is false after an error, and for
	// what limitctl did not write, which is left as it is.
	Done bool
	// Before and After are the units in use, rounded up, just before and after. They are equal
	// exactly if the key was left as it is.
	Before, After int64
	// Record is what the key held before it was changed, if that is not what the caller has
	// kept. It has neither Value nor Parts otherwise.
	Record Record
}
