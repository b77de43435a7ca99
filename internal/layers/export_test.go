package layers

// WaitedFor returns the number of keys with a queue.
func (l *Limiter) WaitedFor() int {
	l.waiter.turns.mu.Lock()
	defer l.waiter.turns.mu.Unlock()
	return len(l.waiter.turns.queues)
}
