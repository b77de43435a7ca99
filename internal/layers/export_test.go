package layers

import (
	"sync/atomic"
	"testing"
)

// LetThroughCounts is how a process counts what overrides let through.
type LetThroughCounts = letThrough

// Add counts a call that an override let through. It reports false if there is no room for that.
func (l *letThrough) Add(id string) bool { return l.add(id, 1) }

// Drain takes the counts of a write, and returns their sum.
func (l *letThrough) Drain() (sum int64) {
	for _, c := range l.drain() {
		sum += c.Count
	}
	return sum
}

// Counter is the count of an override, as a caller has it that is just about to add to it.
func (l *letThrough) Counter(id string) *atomic.Int64 { return (*l.known.Load())[id] }

// WaitedFor returns the number of keys with a queue.
func (w *Waiter) WaitedFor() int {
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	return len(w.turns.queues)
}

// SetFallbackKeys sets how many keys a fallback store in memory has, and how many others share.
func SetFallbackKeys(t *testing.T, keys int, crowd uint64) {
	keysBefore, crowdBefore := fallbackKeys, crowdKeys
	fallbackKeys, crowdKeys = keys, crowd
	t.Cleanup(func() { fallbackKeys, crowdKeys = keysBefore, crowdBefore })
}

// Steps returns the work in the queues so far.
func (w *Waiter) Steps() int {
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	return w.turns.steps
}
