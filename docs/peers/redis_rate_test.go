package peers

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// redisRate is a caller of redis_rate.
type redisRate struct {
	*caller
	limiter *redis_rate.Limiter
	limit   redis_rate.Limit
}

func (r *redisRate) subject() string { return strings.TrimPrefix(r.storeKey, "rate:") }

// asked is an answer of redis_rate.
type asked struct {
	*redis_rate.Result
	// at is the instant of the decision, by the server's clock, or zero if unknown.
	at time.Time
}

// ask takes n units of a key. The answer does not contain the instant of the decision. It is the arrival time,
// which the key holds, minus the time until then, which the answer holds. Both are floats that determine the
// instant's µs, unless the arrival time was in the past.
func (r *redisRate) ask(subject string, n int) asked {
	r.t.Helper()
	const epoch = 1483228800 // 2017
	before := r.serverTime()
	result, err := r.limiter.AllowN(r.t.Context(), subject, r.limit, n)
	must(r.t, err)
	after := r.serverTime()
	text := r.client.Get(r.t.Context(), "rate:"+subject).Val()
	if text == "" || result.ResetAfter == 0 {
		return asked{Result: result}
	}
	arrival, err := strconv.ParseFloat(text, 64)
	must(r.t, err)
	seconds := arrival - result.ResetAfter.Seconds()
	at := time.UnixMicro(int64(math.Round(seconds*1e6)) + epoch*1e6)
	if at.Before(before) || at.After(after) {
		r.t.Fatalf("decided at %v, which is not from %v to %v", at, before, after)
	}
	return asked{result, at}
}

func TestRedisRate(t *testing.T) {
	sequences(t, 200, "redis_rate", "rate:user:%d", func(c *caller) {
		r := &redisRate{caller: c, limiter: redis_rate.NewLimiter(c.client)}
		r.limit = redis_rate.Limit{Rate: int(c.between(1, 1000)),
			Period: time.Duration(c.between(1, 600)) * 100 * time.Millisecond}
		r.limit.Burst = int(c.between(1, 2*int64(r.limit.Rate)))
		c.say(store.Limit{Count: int64(r.limit.Rate), Period: r.limit.Period, Burst: int64(r.limit.Burst)})
		for range 15 {
			if c.random.IntN(4) == 0 {
				c.wait(min(20*time.Millisecond, r.limit.Period/time.Duration(r.limit.Rate)*3))
			}
			r.step(int(c.between(1, int64(r.limit.Burst))))
		}
		r.limit = redis_rate.Limit{Rate: int(c.between(1, 10)), Period: slow, Burst: int(c.between(1, 30))}
		c.say(store.Limit{Count: int64(r.limit.Rate), Period: r.limit.Period, Burst: int64(r.limit.Burst)})
		c.giveBack(r.limit.Burst, r.take)
	})
}

// step takes, and compares the library's answer, those of a peek and of another take on copies of the key, with
// limitctl's at the same instants.
func (r *redisRate) step(n int) {
	r.t.Helper()
	taken := r.ask(r.subject(), n)
	if taken.at.IsZero() { // denied since, by rounding of floats, a full bucket is not quite full
		return
	}
	if entry, is := r.mustLook(taken.at); is && (entry.ResetAfter != taken.ResetAfter ||
		taken.Allowed > 0 && (entry.Remaining != int64(taken.Remaining) ||
			entry.Used != int64(r.limit.Burst-taken.Remaining))) {
		r.t.Errorf("%v: limitctl says\n%+v, the library of %d\n%+v", r.limit, entry.Decision, n, taken.Result)
	}
	r.copied(r.storeKey + ":peek")
	if peek := r.ask(r.subject()+":peek", 0); !peek.at.IsZero() {
		entry, is := r.mustLook(peek.at)
		if is && (entry.Remaining != int64(peek.Remaining) || entry.ResetAfter != peek.ResetAfter) {
			r.t.Errorf("%v: limitctl says\n%+v, the library's peek\n%+v", r.limit, entry.Decision, peek.Result)
		}
	}
	r.copied(r.storeKey + ":one")
	if one := r.ask(r.subject()+":one", 1); !one.at.IsZero() {
		entry, is := r.look(one.at) // nothing may be in use any more
		if (entry.Allowed || !is) != (one.Allowed == 1) || is && !entry.Allowed && entry.RetryAfter != one.RetryAfter {
			r.t.Errorf("%v: limitctl says\n%+v, the library of one more\n%+v", r.limit, entry.Decision, one.Result)
		}
	}
}

// take takes one unit.
func (r *redisRate) take(ctx context.Context) (bool, error) {
	result, err := r.limiter.Allow(ctx, r.subject(), r.limit)
	return err == nil && result.Allowed > 0, err
}
