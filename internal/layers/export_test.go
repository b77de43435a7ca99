package layers

import "testing"

// WaitedFor returns the number of keys with a queue.
func (w *Waiter) WaitedFor() int {
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	return len(w.turns.lines)
}

// SetLeaseKeys sets the number of keys that are leased at a time.
func SetLeaseKeys(t *testing.T, keys int) {
	before := leaseKeys
	leaseKeys = keys
	t.Cleanup(func() { leaseKeys = before })
}
