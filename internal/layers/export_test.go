package layers

// WaitedFor returns how many keys have somebody who waits for them.
func (l *Limiter) WaitedFor() int {
	l.waiter.turns.mu.Lock()
	defer l.waiter.turns.mu.Unlock()
	return len(l.waiter.turns.queues)
}
