package redisserver

import (
	"context"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/sys"
)

// slowPace is the least time for a key at a slow rate. A key takes a server 4 µs, so that is 4 % of its time.
const slowPace = 100 * time.Microsecond

// Pacer limits the rate of a scan, over all masters together. It is safe for concurrent use.
type Pacer struct {
	perKey time.Duration // 0 for no limit
	mu     sync.Mutex
	next   time.Time
}

// NewPacer returns a Pacer for a rate in keys a second. 0 means no limit.
func NewPacer(keysPerSecond int) *Pacer {
	p := &Pacer{}
	if keysPerSecond > 0 {
		p.perKey = time.Second / time.Duration(keysPerSecond)
	}
	return p
}

// isSlow reports whether a scan at this rate leaves the server idle for nearly all of the time, whatever its batches are.
func (p *Pacer) isSlow() bool { return p.perKey >= slowPace }

// batch returns how many keys to read at a time, at most most. It is what the pace allows in a tenth of a second,
// so that a slow scan is even.
func (p *Pacer) batch(most int) int {
	if p.perKey == 0 {
		return most
	}
	return max(1, min(most, int(100*time.Millisecond/p.perKey)))
}

// Wait waits until that many more keys may be read. Its error is that of ctx.
func (p *Pacer) Wait(ctx context.Context, keys int) error {
	if p.perKey == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	pause := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(keys) * p.perKey)
	p.mu.Unlock()
	return sys.Sleep(ctx, pause)
}
