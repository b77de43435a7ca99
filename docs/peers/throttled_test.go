package peers

import (
	"context"
	"testing"
	"time"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// clockedStore is throttled's store, and keeps the last time that it returned: the server's, by which the library
// decides.
type clockedStore struct {
	throttled.GCRAStoreCtx
	told time.Time
}

func (s *clockedStore) GetWithTime(ctx context.Context, key string) (value int64, now time.Time, err error) {
	value, now, err = s.GCRAStoreCtx.GetWithTime(ctx, key)
	s.told = now
	return value, now, err
}

// throttledCaller is a caller of throttled.
type throttledCaller struct {
	*caller
	store    *clockedStore
	limiter  *throttled.GCRARateLimiterCtx
	maxBurst int
}

// limitTo sets the limit: count units per period, and burst at once.
func (c *throttledCaller) limitTo(count int, period time.Duration, burst int) {
	c.t.Helper()
	var err error
	c.maxBurst = burst - 1
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(count, period), MaxBurst: c.maxBurst}
	if c.limiter, err = throttled.NewGCRARateLimiterCtx(c.store, quota); err != nil {
		c.t.Fatal(err)
	}
	c.say(store.Limit{Count: int64(count), Period: period, Burst: int64(burst)})
}

func (c *throttledCaller) ask(key string, n int) (limited bool, result throttled.RateLimitResult) {
	c.t.Helper()
	limited, result, err := c.limiter.RateLimitCtx(c.t.Context(), key, n)
	must(c.t, err)
	return limited, result
}

func TestThrottled(t *testing.T) {
	sequences(t, 200, "throttled", "throttled:203.0.113.%d\nget\n/\n", func(c *caller) {
		backend, err := goredisstore.NewCtx(c.client, "")
		must(t, err)
		th := &throttledCaller{caller: c, store: &clockedStore{GCRAStoreCtx: backend}}
		count, period := int(c.between(1, 1000)), time.Duration(c.between(1, 600))*100*time.Millisecond
		th.limitTo(count, period, int(c.between(1, int64(2*count))))
		for range 15 {
			if c.random.IntN(4) == 0 {
				c.wait(min(20*time.Millisecond, period/time.Duration(count)*3))
			}
			th.step(int(c.between(1, int64(th.maxBurst+1))))
		}
		th.limitTo(int(c.between(1, 10)), slow, int(c.between(1, 30)))
		c.giveBack(th.maxBurst+1, th.take)
	})
}

// step takes, and compares the library's answer, and that of a peek at a copy of the key, with limitctl's at the
// same instants.
func (c *throttledCaller) step(n int) {
	c.t.Helper()
	limited, taken := c.ask(c.storeKey, n)
	if entry, is := c.mustLook(c.store.told); is {
		wrong := entry.Remaining != int64(taken.Remaining) || entry.ResetAfter != taken.ResetAfter ||
			entry.Used != int64(taken.Limit-taken.Remaining)
		if wrong || limited && n == 1 && (entry.Allowed || entry.RetryAfter != taken.RetryAfter) {
			c.t.Errorf("limitctl says\n%+v, the library of %d\n%+v", entry.Decision, n, taken)
		}
	}
	c.copied(c.storeKey + "peek")
	if _, peek := c.ask(c.storeKey+"peek", 0); peek.ResetAfter > 0 {
		entry, is := c.mustLook(c.store.told)
		if is && (entry.Remaining != int64(peek.Remaining) || entry.ResetAfter != peek.ResetAfter ||
			entry.Allowed != (peek.RetryAfter < 0) || !entry.Allowed && entry.RetryAfter != peek.RetryAfter) {
			c.t.Errorf("limitctl says\n%+v, the library's peek\n%+v", entry.Decision, peek)
		}
	}
}

// take takes one unit.
func (c *throttledCaller) take(ctx context.Context) (bool, error) {
	limited, _, err := c.limiter.RateLimitCtx(ctx, c.storeKey, 1)
	return !limited, err
}
