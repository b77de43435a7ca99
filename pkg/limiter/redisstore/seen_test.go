package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// What was added was seen, and nothing else, whatever part of the table it falls in.
func TestSeenKeysAreAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen, want := newSeenKeys(rapid.SampledFrom([]int{0, 1, seenPartsFewer}).Draw(t, "bits")), map[string]bool{}
		key := rapid.OneOf(rapid.StringN(0, 3, -1), rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("rl:{user:%d}:limit", rapid.IntRange(0, 300).Draw(t, "user"))
		}))
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			k := key.Draw(t, "key")
			if seen.has(k) != want[k] {
				t.Fatalf("%q: seen is %v, want %v", k, seen.has(k), want[k])
			}
			if !want[k] {
				seen.add(k)
				want[k] = true
			}
		}
		if seen.count != len(want) {
			t.Fatalf("it counts %d keys of %d", seen.count, len(want))
		}
	})
}

// So many that each part has several chunks, in many slabs.
func TestSeenKeysOfAFullTable(t *testing.T) {
	seen := newSeenKeys(seenPartsFewer)
	const keys = 500_000
	for i := range keys {
		seen.add(fmt.Sprint("in", i))
	}
	for i := range keys {
		if !seen.has(fmt.Sprint("in", i)) {
			t.Fatalf("key %d was forgotten", i)
		}
		if seen.has(fmt.Sprint("out", i)) {
			t.Fatalf("key %d was never there", i)
		}
	}
	bytes := 0
	for _, slab := range seen.slabs {
		bytes += cap(slab)
	}
	if perKey := float64(bytes) / keys; perKey > 10 {
		t.Errorf("%.1f bytes a key", perKey)
	}
}

// The last generation is remembered whole, and what is older than two is not.
func TestSeenLatelyRemembersAGeneration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen := newSeenLately()
		seen.generation = rapid.IntRange(1, 50).Draw(t, "generation")
		n := rapid.IntRange(0, 300).Draw(t, "keys")
		for i := range n {
			seen.add(fmt.Sprint(i))
		}
		for i := range n {
			switch age := n - i; { // 1 is the last
			case age <= seen.generation && !seen.has(fmt.Sprint(i)):
				t.Fatalf("of the last %d, number %d is forgotten", seen.generation, age)
			case age > 2*seen.generation && seen.has(fmt.Sprint(i)):
				t.Fatalf("number %d is still there with generations of %d", age, seen.generation)
			}
		}
	})
}

// A server that shrinks its table during a scan gives keys twice, and the scan gives
// them once, and all that stay.
func TestScanWhileTheTableShrinks(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t, "--enable-debug-command", "yes") // which tells the size of its table
	client := server.Client()
	store, err := New(client)
	if err != nil {
		t.Fatal(err)
	}
	const keys, stay = 200_000, 20 // one in so many
	var state limiter.State
	limit, _ := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 100, Period: limiter.MaxPeriod}.Normalize()
	state.Charge(limit, 7, limiter.InstantOf(time.Now()))
	record := state.AppendRecord(nil)
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
	pattern, _ := limiter.ParsePattern("*")
	given := &givenKeys{}
	client.AddHook(given)
	// Once in eight times the scan is just between two buckets of the smaller table,
	// when the tables are swapped, and nothing comes twice. The keys are others each time:
	// the same ones would lie in the same buckets of this server.
	for round = range 12 {
		server.Do("FLUSHALL")
		each(func(pipe redis.Pipeliner, i int) { pipe.Set(ctx, storeKey(i), record, 0) })
		awaitTable(t, server, 2*keys)
		given.reset()
		found := map[string]int{}
		for entry, err := range store.Scan(ctx, limiter.Query{Subjects: pattern}) {
			if err != nil {
				t.Fatal(err)
			}
			if found[entry.StoreKey]++; len(found) == 5000 { // the scan waits for its reader
				given.await()
				each(func(pipe redis.Pipeliner, i int) {
					if i%stay != 0 && !given.has(storeKey(i)) { // those can come again
						pipe.Unlink(ctx, storeKey(i))
					}
				})
				awaitTable(t, server, keys/4)
			}
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

// awaitTable waits until the server's table has at most so many buckets and is not
// being resized.
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

// givenKeys is a hook that knows which keys a server gave to SCAN.
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

// await waits until there are no more for the moment.
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
