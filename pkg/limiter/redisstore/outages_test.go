package redisstore_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// line is the network between a client and a server. It can be cut, so that connections
// break and new ones are refused, or fall silent.
type line struct {
	state atomic.Int32
	mu    sync.Mutex
	open  map[*wire]bool
}

const (
	lineWorks = iota
	lineCut
	lineSilent
)

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l.state.Load() == lineCut {
		return nil, errors.New("the line is cut")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, line: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[w] = true
	return w, nil
}

// become changes the line. Connections end when it is cut.
func (l *line) become(state int32) {
	l.state.Store(state)
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.open {
		if state == lineCut {
			w.Conn.Close()
		}
	}
}

// wire is a connection over a line. What is written to a silent one arrives nowhere.
type wire struct {
	net.Conn
	line *line
}

func (w *wire) Write(b []byte) (int, error) {
	if w.line.state.Load() == lineSilent {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

func (w *wire) Close() error {
	w.line.mu.Lock()
	delete(w.line.open, w)
	w.line.mu.Unlock()
	return w.Conn.Close()
}

// A service that has been through a thousand outages has as many goroutines and as much
// memory as before.
func TestAThousandOutagesLeaveNothingBehind(t *testing.T) {
	tier.Full(t, "outages in series, and servers that hang")
	server := redistest.Start(t)
	network := &line{open: map[*wire]bool{}}
	// After as many failed dials as its pool is large, since it exists, go-redis refuses to
	// dial for up to a second.
	client := redisstore.NewClient(redis.Options{
		Addr: server.Addr, Dialer: network.dial, ReadTimeout: 20 * time.Millisecond, PoolSize: 1 << 16,
		ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10, // so that a connection more or less makes little difference
	})
	backend, err := redisstore.Own(client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { backend.Close() })
	var ahead atomic.Int64 // how far the breaker's clock is ahead, so that nothing waits for its pauses
	var opened, closed atomic.Int64
	guarded := layers.WithBreaker(backend, layers.Breaker{
		Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		Slow:  time.Hour, // a machine with much to do is no outage
		OnChange: func(c layers.BreakerChange) {
			switch {
			case c.To == layers.BreakerClosed:
				closed.Add(1)
			case c.From == layers.BreakerClosed:
				opened.Add(1)
			}
		},
	})
	soft := layers.WithFailure(guarded, layers.Failure{Policy: store.LocalOnError})
	limits := storecall.New(soft)
	limit := store.Limit{Count: store.MaxCount, Period: time.Hour}
	take := func() store.Decider {
		d, err := limits.Take(t.Context(), store.Key{Subject: "u"}, limit, 1)
		if err != nil {
			t.Errorf("take: %v", err)
		}
		return d.DecidedBy
	}
	outages := func(n int) {
		for i := range n {
			if i%10 == 0 {
				network.become(lineSilent)
			} else {
				network.become(lineCut)
			}
			var callers panics.Group
			for range 8 {
				callers.Go(func() {
					for range 5 { // so many failures open the breaker
						if by := take(); by != store.DecidedByLocal {
							t.Errorf("outage %d: decided by %s", i, by)
						}
					}
				})
			}
			if err := callers.Wait(); err != nil {
				t.Fatal(err)
			}
			network.become(lineWorks)
			for deadline := time.Now().Add(redistest.Patience); take() != store.DecidedByStore; {
				if time.Now().After(deadline) {
					t.Fatalf("after outage %d the store does not decide again", i)
				}
				ahead.Add(int64(time.Minute))      // the next try is due
				time.Sleep(100 * time.Microsecond) // so that it has somewhere to run
			}
		}
	}
	const few, half = 50, 500
	outages(few) // after which everything is there that stays
	goroutinesBefore, bytesBefore := settled(t, runtime.NumGoroutine())
	outages(half)
	_, bytesBetween := settled(t, goroutinesBefore)
	outages(half)
	goroutinesAfter, bytesAfter := settled(t, goroutinesBefore)
	// On a busy machine five answers in a row can be late, which is one more outage.
	if closed.Load() < few+2*half || opened.Load() != closed.Load() {
		t.Errorf("the breaker opened %d times, and closed %d times", opened.Load(), closed.Load())
	}
	if goroutinesAfter > goroutinesBefore {
		all := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after:\n%s", goroutinesBefore, goroutinesAfter, all[:runtime.Stack(all, true)])
	}
	// A hundred bytes left behind by each outage would be seen in both halves. What other tests of the
	// process have begun takes memory once.
	if grown := min(bytesBetween-bytesBefore, bytesAfter-bytesBetween); grown > 100*half {
		t.Errorf("%d bytes before, %d between, %d after", bytesBefore, bytesBetween, bytesAfter)
	}
	t.Logf("goroutines %d → %d, bytes %d → %d → %d", goroutinesBefore, goroutinesAfter, bytesBefore, bytesBetween, bytesAfter)
}

// settled returns how many goroutines there are, once they are no more than expected or
// nothing changes any more, and how many bytes are in use.
func settled(t *testing.T, expected int) (count int, bytes int64) {
	t.Helper()
	var m runtime.MemStats
	for range 200 { // probes and connections that are ending need a moment
		runtime.GC()
		if count = runtime.NumGoroutine(); count <= expected {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	runtime.GC() // once more, for what pools keep for a while
	runtime.ReadMemStats(&m)
	return count, int64(m.HeapAlloc)
}
