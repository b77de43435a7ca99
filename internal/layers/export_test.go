package layers

// WaitedFor returns the number of keys with a queue.
func (w *Waiter) WaitedFor() int {
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	return len(w.turns.queues)
}
