package peers

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-redisstore"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sethvargoCaller is a caller of go-redisstore.
type sethvargoCaller struct {
	*caller
	store    golimiter.Store
	tokens   uint64
	interval time.Duration
}

func (s *sethvargoCaller) limitTo(tokens uint64, interval time.Duration) {
	s.t.Helper()
	var err error
	address := s.client.Options().Addr
	s.tokens, s.interval = tokens, interval
	s.store, err = redisstore.New(&redisstore.Config{
		Tokens: tokens, Interval: interval, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", address) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.store.Close(context.Background()) })
	// The limit is in the hash. The period is there only from the second window on.
	s.say(store.Limit{Count: 1, Period: interval})
}

func TestSethvargo(t *testing.T) {
	sequences(t, 100, "sethvargo", "203.0.113.%d", func(c *caller) {
		s := &sethvargoCaller{caller: c}
		s.limitTo(uint64(c.between(1, 12)), time.Second+time.Duration(c.between(0, 500_000_000)))
		for range 15 {
			switch c.random.IntN(8) {
			case 0:
				c.wait(100 * time.Millisecond)
			case 1:
				c.wait(2 * s.interval)
			}
			s.step()
		}
		c.recognise("sethvargo", s.take)
		s.giveBack()
	})
}

// step takes, and compares the library's answer with limitctl's right after: the library decides by its caller's
// clock, which it does not report, but it reports the end of the window in ns.
func (s *sethvargoCaller) step() {
	s.t.Helper()
	limit, remaining, next, ok, err := s.store.Take(s.t.Context(), s.storeKey)
	if err != nil {
		s.t.Fatal(err)
	}
	at := time.Now().Truncate(time.Microsecond)
	end := time.Unix(0, int64(next))
	if !at.Before(end) {
		return // the window ended meanwhile
	}
	entry, is := s.look(at)
	if !is || uint64(entry.Limit.Count) != limit || entry.Limit.Period != s.interval {
		s.t.Fatalf("limitctl says of a limit of %d and %v\n%+v", limit, s.interval, entry)
	}
	if uint64(entry.Remaining) != remaining || uint64(entry.Used) != limit-remaining || entry.Allowed != (remaining > 0) ||
		entry.ResetAfter != end.Sub(at) || !entry.Allowed && entry.RetryAfter != entry.ResetAfter {
		s.t.Errorf("limitctl says\n%+v, the library %d of %d until %v, %v", entry.Decision, remaining, limit, end.Sub(at), ok)
	}
	s.stepWithoutThePeriod(at, remaining)
	if after := end.Add(s.interval / 2); uint64(s.remainingAt(after)) != limit {
		s.t.Errorf("limitctl says that %d remain in the next window, want %d", s.remainingAt(after), limit)
	}
}

// stepWithoutThePeriod checks limitctl's answer without the period. It may be unknown, but not wrong.
func (s *sethvargoCaller) stepWithoutThePeriod(at time.Time, remaining uint64) {
	s.t.Helper()
	said := s.said
	s.say(store.Limit{})
	if entry, is := s.look(at); is && entry.UsedKnown() && uint64(entry.Remaining) != remaining {
		s.t.Errorf("without the period limitctl says\n%+v, want %d", entry.Decision, remaining)
	}
	s.say(said)
}

// remainingAt returns the remaining units from limitctl at an instant, which are all if nothing is in use.
func (s *sethvargoCaller) remainingAt(at time.Time) int64 {
	s.t.Helper()
	if entry, is := s.look(at); is {
		return entry.Remaining
	}
	return int64(s.tokens)
}

// take takes one unit.
func (s *sethvargoCaller) take(ctx context.Context) (bool, error) {
	_, _, _, ok, err := s.store.Take(ctx, s.storeKey)
	return ok, err
}

func (s *sethvargoCaller) giveBack() {
	s.t.Helper()
	s.reset(s.take)
	s.limitTo(uint64(s.between(1, 30)), time.Hour)
	if n := admits(s.t.Context(), s.t, s.take); n != int64(s.tokens) {
		s.t.Errorf("after a reset %d of %d are admitted", n, s.tokens)
	}
	for quarter := range 8 { // after its end, the tokens of a window must not be reported as in use
		at := time.Now().Truncate(time.Microsecond).Add(time.Duration(quarter) * s.interval / 4)
		s.stepWithoutThePeriod(at, uint64(s.remainingAt(at)))
	}
	remaining := s.random.Int64N(int64(s.tokens) + 1)
	s.setRemaining(remaining)
	if n := admits(s.t.Context(), s.t, s.take); n != remaining {
		s.t.Errorf("%d of %d are admitted, want the %d that remain", n, s.tokens, remaining)
	}
}

// The remaining units can also be set in a window without takes.
func TestSethvargoSetInALaterWindow(t *testing.T) {
	sequences(t, 20, "sethvargo", "203.0.113.%d", func(c *caller) {
		s := &sethvargoCaller{caller: c}
		s.limitTo(uint64(c.between(2, 12)), 2*time.Second)
		for {
			_, _, next, _, err := s.store.Take(t.Context(), c.storeKey)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(time.Unix(0, int64(next)).Add(time.Millisecond)))
			remaining := c.random.Int64N(int64(s.tokens))
			c.setRemaining(remaining)
			_, left, later, ok, err := s.store.Take(t.Context(), c.storeKey)
			if err != nil {
				t.Fatal(err)
			}
			if window := uint64(s.interval); later > next+window+window/2 {
				continue // another window has ended meanwhile
			}
			if ok != (remaining > 0) || ok && int64(left) != remaining-1 {
				t.Errorf("%d remain after a take, %v, of the %d that were set", left, ok, remaining)
			}
			return
		}
	})
}

// With intervals below a second a key gets no time to live, so nothing is limited, and nothing is visible.
func TestSethvargoBelowASecond(t *testing.T) {
	sequences(t, 1, "sethvargo", "203.0.113.%d", func(c *caller) {
		s := &sethvargoCaller{caller: c}
		s.limitTo(2, 900*time.Millisecond)
		for range 5 {
			if _, _, _, ok, err := s.store.Take(t.Context(), c.storeKey); !ok || err != nil || c.exists() {
				t.Errorf("a take is %v, %v, and left a key: %v", ok, err, c.exists())
			}
		}
	})
}
