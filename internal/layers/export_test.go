package layers

import "testing"

// WaitedFor returns the number of keys with a queue.
func (w *Waiter) WaitedFor() int {
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	return len(w.turns.lines)
}

// SetFallbackKeys sets how many keys a fallback store in memory has, and how many others share.
func SetFallbackKeys(t *testing.T, keys int, crowd uint64) {
	keysBefore, crowdBefore := fallbackKeys, crowdKeys
	fallbackKeys, crowdKeys = keys, crowd
	t.Cleanup(func() { fallbackKeys, crowdKeys = keysBefore, crowdBefore })
}

// SetLeaseKeys sets the number of keys that are leased at a time.
func SetLeaseKeys(t *testing.T, keys int) {
	before := leaseKeys
	leaseKeys = keys
	t.Cleanup(func() { leaseKeys = before })
}
