package peers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestUlule(t *testing.T) {
	sequences(t, 200, "ulule", "limiter:203.0.113.%d", func(c *caller) {
		backend, err := ululeredis.NewStore(c.client)
		if err != nil {
			t.Fatal(err)
		}
		rate := ulule.Rate{Limit: c.between(1, 50), Period: time.Duration(c.between(50, 60_000)) * time.Millisecond}
		u := &ululeCaller{caller: c, limiter: ulule.New(backend, rate)}
		c.say(store.Limit{Count: rate.Limit, Period: rate.Period})
		for range 15 {
			if c.random.IntN(4) == 0 {
				c.wait(min(100*time.Millisecond, rate.Period))
			}
			u.step(c.between(1, rate.Limit))
		}
		c.recognise("ulule", u.take)
		u.giveBack()
	})
}

type ululeCaller struct {
	*caller
	limiter *ulule.Limiter
}

func (u *ululeCaller) subject() string { return strings.TrimPrefix(u.storeKey, "limiter:") }

func (u *ululeCaller) pttl() time.Duration { return u.client.PTTL(u.t.Context(), u.storeKey).Val() }

func (u *ululeCaller) count() int64 {
	n, err := u.client.Get(u.t.Context(), u.storeKey).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		u.t.Fatal(err)
	}
	return n
}

// step takes, and then compares limitctl's answer with the library's peek, which does not write. The library
// reports the second at which the window ends, by its own clock; limitctl reports the time until then in ms. Both
// derive from the expiry of the key, which decreases each ms. So limitctl's value must be between those before and
// after, and so must the library's. The server counts from the last whole ms of its clock, and limitctl from the
// µs.
func (u *ululeCaller) step(n int64) {
	u.t.Helper()
	ctx := u.t.Context()
	if _, err := u.limiter.Increment(ctx, u.subject(), n); err != nil {
		u.t.Fatal(err)
	}
	began, longest := time.Now(), u.pttl()
	entry, has := u.look(time.Time{})
	peek, err := u.limiter.Peek(ctx, u.subject())
	if err != nil {
		u.t.Fatal(err)
	}
	count := u.count()
	shortest := u.pttl()
	if shortest < 0 {
		return // the window ended meanwhile
	}
	inTime := entry.ResetAfter <= longest && entry.ResetAfter >= shortest-time.Millisecond
	if !has || !inTime || entry.Used != count || entry.Remaining != peek.Remaining {
		u.t.Errorf("limitctl says\n%+v, of a count of %d until %v to %v, the library\n%+v", entry.Decision, count,
			shortest, longest, peek)
	}
	// For a key that has just expired the library reports an instant that may be in the second before.
	if shortest > 0 && (peek.Reset < began.Add(shortest).Unix() || peek.Reset > time.Now().Add(longest).Unix()) {
		u.t.Errorf("the library says that %v to %v from now on is %d", shortest, longest, peek.Reset)
	}
	next, err := u.limiter.Get(ctx, u.subject())
	if err != nil {
		u.t.Fatal(err)
	}
	if u.count() != count+1 {
		return // it was the first in another window
	}
	if entry.Allowed != !next.Reached {
		u.t.Errorf("limitctl says\n%+v, and the next request got\n%+v", entry.Decision, next)
	}
	if !entry.Allowed && entry.RetryAfter != entry.ResetAfter {
		u.t.Errorf("limitctl says to retry at another time than when the window ends: %+v", entry.Decision)
	}
}

// take takes one unit.
func (u *ululeCaller) take(ctx context.Context) (bool, error) {
	counted, err := u.limiter.Get(ctx, u.subject())
	return err == nil && !counted.Reached, err
}

func (u *ululeCaller) giveBack() {
	u.t.Helper()
	rate := ulule.Rate{Limit: u.between(1, 30), Period: time.Hour}
	u.limiter.Rate = rate
	u.reset(u.take)
	u.say(store.Limit{Count: rate.Limit, Period: rate.Period})
	if n := admits(u.t.Context(), u.t, u.take); n != rate.Limit {
		u.t.Errorf("after a reset %d of %d are admitted", n, rate.Limit)
	}
}
