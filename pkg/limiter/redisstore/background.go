package redisstore

import (
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
)

// background is work that callers leave behind. Unlike that of a [panics.Group], it can be
// waited for while more begins.
type background struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when nothing runs any more; nil before the first
}

// Go calls f in a goroutine, and then with its error, or its panic as one.
func (b *background) Go(f func() error, then func(err error)) {
	b.mu.Lock()
	if b.running++; b.running == 1 {
		b.idle = make(chan struct{})
	}
	b.mu.Unlock()
	panics.Go(f, func(err error) {
		then(err)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.running--; b.running == 0 {
			close(b.idle)
		}
	})
}

// Wait waits until nothing runs, for longest at most.
func (b *background) Wait(longest time.Duration) {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-time.After(longest):
	}
}
