package redisserver_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

// If a server shrinks its table during a scan, it returns keys twice. The scan yields all that stay, and each once.
func TestScanWhileTheTableShrinks(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t, "--enable-debug-command", "yes") // reports the size of its table
	client := server.Client()
	const keys, stay = 200_000, 20 // one in so many stays
	each := func(do func(pipe redis.Pipeliner, i int)) {
		for first := 0; first < keys; first += 5000 {
			if _, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for i := first; i < first+5000; i++ {
					do(pipe, i)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	round := 0
	storeKey := func(i int) string { return fmt.Sprintf("rl:{user:%d:%d}:limit", round, i) }
	servers := redisserver.New(client, "rl")
	given := &givenKeys{}
	client.AddHook(given)
	// Once in eight times the scan is exactly between two buckets of the smaller table when the tables are swapped,
	// and nothing comes twice. The keys differ each time, since the same ones would be in the same buckets of this
	// server.
	for round = range 12 {
		server.Do("FLUSHALL")
		each(func(pipe redis.Pipeliner, i int) { pipe.Set(ctx, storeKey(i), "x", 0) })
		awaitTable(t, server, 2*keys)
		given.reset()
		found, seen := map[string]int{}, servers.NewSeen()
		err := scanOf(servers, "rl:*", func(key string) {
			if !seen.First(key) {
				return
			}
			if found[key]++; len(found) == 5000 { // the scan waits for its reader
				given.await()
				each(func(pipe redis.Pipeliner, i int) {
					if i%stay != 0 && !given.has(storeKey(i)) { // removed keys can come again
						pipe.Unlink(ctx, storeKey(i))
					}
				})
				awaitTable(t, server, keys/4)
			}
		}).All(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < keys; i += stay {
			if n := found[storeKey(i)]; n != 1 {
				t.Fatalf("%s came %d times", storeKey(i), n)
			}
		}
		for key, n := range found {
			if n != 1 {
				t.Fatalf("%s came %d times", key, n)
			}
		}
		if given.twice() > 0 {
			return
		}
	}
	t.Error("the server gave no key twice, so this proves nothing")
}

// awaitTable waits until the server's table has at most most buckets and is not being resized.
func awaitTable(t *testing.T, server *redistest.Server, most int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		stats := fmt.Sprint(server.Do("DEBUG", "HTSTATS", "0"))
		var size int
		_, rest, _ := strings.Cut(stats, "table size: ")
		fmt.Sscan(rest, &size)
		if main, _, _ := strings.Cut(stats, "[Expires HT]"); size > 0 && size <= most && !strings.Contains(main, "rehashing") {
			return
		}
	}
	t.Fatal("the table does not shrink")
}

// givenKeys is a hook that records the keys that SCAN returned.
type givenKeys struct {
	mu   sync.Mutex
	keys map[string]int
}

func (g *givenKeys) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys = map[string]int{}
}

func (g *givenKeys) has(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.keys[key] > 0
}

// await waits until no more come.
func (g *givenKeys) await() {
	for before := -1; ; time.Sleep(100 * time.Millisecond) {
		g.mu.Lock()
		now := len(g.keys)
		g.mu.Unlock()
		if now == before {
			return
		}
		before = now
	}
}

// twice returns how many keys came more than once.
func (g *givenKeys) twice() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, times := range g.keys {
		if times > 1 {
			n++
		}
	}
	return n
}

func (g *givenKeys) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *givenKeys) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if scan, is := cmd.(*redis.ScanCmd); is {
			keys, _ := scan.Val()
			g.mu.Lock()
			defer g.mu.Unlock()
			for _, key := range keys {
				g.keys[key]++
			}
		}
		return err
	}
}

func (g *givenKeys) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
