package lanes

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// exchange is one pipeline of calls.
type exchange struct {
	number  uint64 // no other has it
	calls   []*ask
	callers int                // of those, how many still wait for the answer
	ctx     context.Context    // ends when the last of them leaves
	cancel  context.CancelFunc // ends it
	// What the exchange works with. An exchange that ended well is used again.
	asks   []*ask
	cmds   []*call
	merger merger
	fine   bool // nothing failed
}

var (
	exchanges = sync.Pool{New: func() any { return new(exchange) }}
	begun     atomic.Uint64 // exchanges of all lanes
)

// start begins exchanges for what has queued, as far as there is room. The caller
// holds the lock.
func (l *lane) start() {
	for l.startOne(sharing, maxBatch) {
	}
}

// startOne begins an exchange for what has queued, at most that many calls, and reports whether
// it did. It does not if as many exchanges as most are shared. The caller holds the lock.
func (l *lane) startOne(most, calls int) bool {
	e := l.next(most, calls)
	if e == nil {
		return false
	}
	panics.Go(func() error { return l.exchange(e.ctx, e) }, func(panicked error) {
		for e := l.finish(e, panicked); e != nil; { // one goroutine serves while there is work
			e = l.finish(e, l.exchangeAgain(e))
		}
	})
	return true
}

// exchangeAgain is exchange with its panic as an error.
func (l *lane) exchangeAgain(e *exchange) (err error) {
	defer panics.Catch(&err)
	return l.exchange(e.ctx, e)
}

// next takes what has queued for an exchange, at most that many calls, if there is room for
// one more and fewer than most are shared. The caller holds the lock.
func (l *lane) next(most, calls int) *exchange {
	if l.first == nil || l.busy >= InFlight || l.batches >= most || l.abandoned >= maxAbandoned {
		return nil
	}
	e := exchanges.Get().(*exchange)
	e.number, e.callers = begun.Add(1), min(l.waiting, maxBatch, calls)
	var end time.Time
	for range e.callers {
		a := l.first
		l.remove(a)
		a.in, e.calls = e, append(e.calls, a)
		if a.end.After(end) {
			end = a.end
		}
	}
	e.ctx, e.cancel = context.WithDeadline(context.Background(), end)
	l.busy++
	l.batches++
	l.shared = append(l.shared, e)
	return e
}

// exchange sends a batch. Each call, and each ask, has its own outcome afterwards.
func (l *lane) exchange(ctx context.Context, e *exchange) error {
	if l.sender.OnBatch != nil {
		l.sender.OnBatch(len(e.calls))
	}
	for _, a := range e.calls {
		if a.call == nil {
			e.asks = append(e.asks, a)
		} else {
			e.cmds = append(e.cmds, a.call)
		}
	}
	single := len(e.cmds)
	e.fine = single == 0
	decisions := e.merger.merge(l.sender, e.asks)
	for _, m := range decisions {
		e.cmds = append(e.cmds, m.call(ctx, true))
	}
	l.process(ctx, e.cmds)
	var again []*call
	for i, m := range decisions {
		if redisserver.IsErrorReply(e.cmds[single+i].Err(), "NOSCRIPT") { // before anything ran
			e.cmds[single+i] = m.call(ctx, false)
			again = append(again, e.cmds[single+i])
		}
	}
	l.process(ctx, again)
	for i, m := range decisions {
		e.fine = m.took(e.cmds[single+i]) && e.fine
	}
	return nil
}

// process sends calls in one go. Each has its own error afterwards.
func (l *lane) process(ctx context.Context, calls []*call) {
	switch len(calls) {
	case 0:
	case 1:
		l.client.Process(ctx, calls[0])
	default:
		pipe := l.client.Pipeline()
		batch := make([]redis.Cmder, len(calls))
		for i, c := range calls {
			batch[i] = c
		}
		pipe.BatchProcess(ctx, batch...)
		pipe.Exec(ctx)
	}
}

// finish wakes the callers of an exchange that is over, and returns the next exchange, if there
// is one. From then on the work of these callers is theirs again.
func (l *lane) finish(e *exchange, panicked error) *exchange {
	e.cancel()
	if panicked != nil {
		e.fine = false
		for _, a := range e.calls {
			if a.call == nil {
				a.err = MaybeSent(panicked)
			} else {
				a.call.SetErr(panicked)
			}
		}
	}
	l.mu.Lock()
	l.panicked = l.panicked || panicked != nil
	i := slices.Index(l.shared, e)
	l.shared = slices.Delete(l.shared, i, i+1)
	all := e.callers == len(e.calls)
	for i, a := range e.calls {
		if a.over { // its caller has left
			e.calls[i] = nil
		}
		a.over = true
	}
	l.mu.Unlock()
	for _, a := range e.calls {
		if a != nil {
			a.done <- struct{}{}
		}
	}
	runtime.Gosched()
	l.mu.Lock()
	if e.callers == 0 {
		l.abandoned--
	} else {
		l.busy--
		l.batches--
	}
	next := l.next(sharing, maxBatch)
	l.start()
	l.mu.Unlock()
	if e.fine && all {
		e.reuse()
	}
	return next
}

// reuse lets another exchange have what e worked with.
func (e *exchange) reuse() {
	clear(e.calls)
	clear(e.asks)
	clear(e.cmds)
	e.calls, e.asks, e.cmds = e.calls[:0], e.asks[:0], e.cmds[:0]
	e.ctx, e.cancel, e.callers, e.fine = nil, nil, 0, false
	exchanges.Put(e)
}
