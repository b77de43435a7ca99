package peers

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "32") // callers mostly wait
	os.Exit(m.Run())
}

// slow is a period in which a unit comes back so late that no key expires between two calls, however busy the
// machine is. Otherwise a wait for a key could last for ever.
const slow = 1000 * time.Hour

// caller is a caller of a peer, and limitctl, on one server.
type caller struct {
	t      *testing.T
	client *redis.Client
	random *rand.Rand
	// clock, unless zero, is limitctl's time: that of the library's answer.
	clock time.Time
	store *redisstore.Store
	keys  admin.Keyspace // with the peer's layout
	// layout, storeKey and said describe the key of the sequence.
	layout   layouts.Layout
	storeKey string
	said     store.Limit
}

// sequences runs n random sequences of calls, each with its own caller and key.
func sequences(t *testing.T, n int, layout, storeKey string, run func(*caller)) {
	server := redistest.Start(t)
	client, ours := server.Client(), server.Client()
	known, err := layouts.Named(layout)
	must(t, err)
	for i := range n {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			c := &caller{t: t, client: client, random: rand.New(rand.NewPCG(uint64(i), 0)), layout: known}
			c.storeKey = fmt.Sprintf(storeKey, i)
			var err error
			c.store, err = redisstore.New(ours, redisstore.WithClock(c.now), redisstore.WithBudget(time.Minute))
			must(t, err)
			run(c)
		})
	}
}

// now is the clock of limitctl's store.
func (c *caller) now() time.Time {
	if c.clock.IsZero() {
		return c.serverTime()
	}
	return c.clock
}

func (c *caller) serverTime() time.Time {
	now, err := c.client.Time(c.t.Context()).Result()
	must(c.t, err)
	return now
}

// say sets the limit that an operator names.
func (c *caller) say(limit store.Limit) {
	c.said = limit
	c.keys = c.store.OtherLimiters(layouts.Sources{{Layout: c.layout, Limit: limit}})
}

// look returns limitctl's entry for the key at an instant, by the server's clock if it is zero. has is false if
// nothing is in use.
func (c *caller) look(at time.Time) (entry admin.Entry, has bool) {
	c.t.Helper()
	c.clock = at
	if _, ok := c.layout.Match(c.storeKey, true); !ok {
		c.t.Fatalf("%q does not match", c.storeKey)
	}
	pattern, err := store.ExactStoreKeyPattern(c.storeKey)
	must(c.t, err)
	query := admin.Query{Subjects: pattern, Records: true}
	for found, err := range c.keys.Scan(c.t.Context(), query) {
		if err != nil {
			c.t.Fatalf("of %q: %v", c.storeKey, err)
		}
		entry, has = found, true
	}
	return entry, has
}

// mustLook is look for a key that must be in use. It returns false only if it has expired meanwhile.
func (c *caller) mustLook(at time.Time) (entry admin.Entry, is bool) {
	c.t.Helper()
	entry, has := c.look(at)
	if !has && c.exists() {
		c.t.Fatalf("%q has nothing in use", c.storeKey)
	}
	return entry, has
}

func (c *caller) exists() bool {
	n, err := c.client.Exists(c.t.Context(), c.storeKey).Result()
	must(c.t, err)
	return n > 0
}

// copied copies the key to another name, for a library whose own peek writes.
func (c *caller) copied(storeKey string) {
	c.t.Helper()
	must(c.t, c.client.Copy(c.t.Context(), c.storeKey, storeKey, 0, true).Err())
}

// reset deletes the key like limitctl reset. take makes it used.
func (c *caller) reset(take func(context.Context) (bool, error)) {
	c.t.Helper()
	for {
		if _, err := take(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		entry, has := c.look(time.Time{})
		if !has {
			continue // it has come back meanwhile
		}
		n, changed, err := c.keys.Delete(c.t.Context(), entry.Record)
		if len(changed) > 0 || err != nil || c.exists() {
			c.t.Fatalf("deleted %d of %q, %v, %v; it is still there: %v", n, c.storeKey, changed, err, c.exists())
		}
		if n == 1 {
			return
		} // otherwise it has expired meanwhile
	}
}

// wait waits for at most most.
func (c *caller) wait(most time.Duration) {
	time.Sleep(time.Duration(c.random.Int64N(int64(most))))
}

// between returns a random number; small ones are as frequent as large ones.
func (c *caller) between(least, most int64) int64 {
	n := least + c.random.Int64N(most-least+1)
	for c.random.IntN(2) == 0 {
		n = least + (n-least)/4
	}
	return n
}

// giveBack resets a slow limit, after which a library must admit a full burst. take takes one unit of it.
func (c *caller) giveBack(burst int, take func(context.Context) (bool, error)) {
	c.t.Helper()
	c.reset(take)
	if n := admits(c.t.Context(), c.t, take); n != int64(burst) {
		c.t.Errorf("after a reset %d of %d are admitted", n, burst)
	}
}

// admits counts how many requests a library admits until it denies one.
func admits(ctx context.Context, t *testing.T, take func(context.Context) (bool, error)) (n int64) {
	t.Helper()
	for {
		allowed, err := take(ctx)
		must(t, err)
		if !allowed {
			return n
		}
		n++
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
