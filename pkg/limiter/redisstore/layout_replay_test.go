package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

// replay does with a real Redis what another limiter does, in virtual time. A limiter that we
// cannot run here is told by its commands and its rule.
type replay struct {
	redis.Cmdable
	now time.Time
	// ends is when keys expire by the virtual clock.
	ends map[string]time.Time
}

// replayed is a limiter, and a limit of it.
type replayed struct {
	layout string
	limit  string
	keys   string // a pattern
	// step is what times are multiples of. It is longer than a test takes from setting an
	// expiry to reading it.
	step time.Duration
	// take is a request, by the limiter's own rule.
	take func(r *replay) bool
}

const (
	replayCount  = 5
	replayWindow = 10 // seconds
)

func replayedLimiters() map[string]replayed {
	return map[string]replayed{
		"Kong": {layout: "kong", limit: "5/1m", keys: "ratelimit:*", step: time.Second, take: func(r *replay) bool {
			const nobody = "00000000-0000-0000-0000-000000000000"
			key := fmt.Sprintf("ratelimit:%s:%s:2001:db8::1:%d:minute", nobody, nobody, r.now.Truncate(time.Minute).UnixMilli())
			count := r.Incr(r.ctx(), key).Val()
			if count == 1 {
				r.expire(key, time.Minute)
			}
			return count-1 < replayCount
		}},
		"Envoy": {layout: "envoy", limit: "5/1m", keys: "edge_*", step: time.Second, take: func(r *replay) bool {
			key := fmt.Sprintf("edge_remote_address_203.0.113.9_%d", r.now.Truncate(time.Minute).Unix())
			count := r.Incr(r.ctx(), key).Val()
			r.expire(key, 3*time.Minute)
			return count <= replayCount
		}},
		"APISIX limit-count":                {layout: "apisix", limit: "5/10s", keys: "plugin-*", step: time.Second, take: takeApisixUsed},
		"APISIX limit-count of before 2026": {layout: "apisix", limit: "5/10s", keys: "plugin-*", step: time.Second, take: takeApisixLeft},
		"Spring Cloud Gateway": {layout: "spring-cloud-gateway", limit: "2/1s,burst=5", keys: "request_rate_limiter*", step: time.Second,
			take: takeSpring},
	}
}

func takeApisixUsed(r *replay) bool {
	const key = "plugin-limit-count:v1:gold:alice"
	count := r.IncrBy(r.ctx(), key, 1).Val()
	if count == 1 {
		r.expire(key, replayWindow*time.Second)
	}
	return count <= replayCount
}

func takeApisixLeft(r *replay) bool {
	const key = "plugin-limit-countgold:alice"
	if r.Exists(r.ctx(), key).Val() == 0 {
		r.set(key, strconv.Itoa(replayCount-1), replayWindow*time.Second)
		return true
	}
	return r.DecrBy(r.ctx(), key, 1).Val() >= 0
}

func takeSpring(r *replay) bool {
	const tokensKey, timestampKey = "request_rate_limiter.{users.42}.tokens", "request_rate_limiter.{users.42}.timestamp"
	const rate, capacity = 2.0, 5.0
	now := float64(r.now.Unix())
	tokens, err := r.Get(r.ctx(), tokensKey).Float64()
	if err != nil {
		tokens = capacity
	}
	counted, _ := r.Get(r.ctx(), timestampKey).Float64()
	tokens = min(capacity, tokens+max(0, now-counted)*rate)
	allowed := tokens >= 1
	if allowed {
		tokens--
	}
	r.set(tokensKey, strconv.FormatFloat(tokens, 'g', -1, 64), 5*time.Second)
	r.set(timestampKey, strconv.FormatFloat(now, 'f', -1, 64), 5*time.Second)
	return allowed
}

func (r *replay) ctx() context.Context { return context.Background() }

func (r *replay) expire(key string, ttl time.Duration) { r.ends[key] = r.now.Add(ttl) }

func (r *replay) set(key, value string, ttl time.Duration) {
	r.Set(r.ctx(), key, value, 0)
	r.expire(key, ttl)
}

// show gives all keys the expiry that they have by the virtual clock, and hide takes it away
// again, so that the real clock never deletes one.
func (r *replay) show() {
	for key, end := range r.ends {
		r.PExpire(r.ctx(), key, max(time.Second, end.Sub(r.now)))
	}
}

func (r *replay) hide() {
	for key := range r.ends {
		r.Persist(r.ctx(), key)
	}
}

// advance lets time pass, and keys expire.
func (r *replay) advance(d time.Duration) {
	r.now = r.now.Add(d)
	for key, end := range r.ends {
		if !end.After(r.now) {
			r.Del(r.ctx(), key)
			delete(r.ends, key)
		}
	}
}

// TestLayoutReplay takes, is denied and waits as the clients of other limiters, and holds what
// we read of the keys to what these limiters do next.
func TestLayoutReplay(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	t.Parallel()
	for name, l := range replayedLimiters() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := socketClient(t, redistest.Start(t))
			for sequence := range 25 {
				l.run(t, client, rand.New(rand.NewPCG(uint64(sequence), 7)))
				if t.Failed() {
					t.Fatalf("in sequence %d", sequence)
				}
			}
		})
	}
}

func (l replayed) run(t *testing.T, client *redis.Client, random *rand.Rand) {
	client.FlushDB(context.Background())
	r := &replay{Cmdable: client, now: time.Unix(1_795_294_320+random.Int64N(3600), 0), ends: map[string]time.Time{}}
	backend, err := redisstore.Own(client, redisstore.WithClock(func() time.Time { return r.now }))
	if err != nil {
		t.Fatal(err)
	}
	layout, err := layouts.Named(l.layout)
	if err != nil {
		t.Fatal(err)
	}
	limit, err := layouts.ParseLimit(l.limit)
	if err != nil {
		t.Fatal(err)
	}
	limit.Algorithm = 0
	keys := backend.OtherLimiters(layouts.Sources{{Layout: layout, Keys: mustPattern(l.keys), Limit: limit}})
	for range 12 {
		r.advance(l.random(random))
		r.show()
		before := l.read(t, keys)
		r.hide()
		switch {
		case before == nil:
			l.expect(t, r, before, true)
		case before.Allowed:
			for range before.Remaining {
				l.expect(t, r, before, true)
			}
			l.expect(t, r, before, false)
		default:
			steps := (before.RetryAfter + l.step - 1) / l.step
			early := random.IntN(2) == 0 && steps > 1
			if early {
				steps--
			}
			r.advance(steps * l.step)
			l.expect(t, r, before, !early)
		}
		for n := random.IntN(2 * replayCount); n > 0; n-- { // and some more
			l.take(r)
		}
	}
}

// random returns how long to wait: mostly about as long as the limit needs.
func (l replayed) random(random *rand.Rand) time.Duration {
	d := time.Duration(random.Int64N(int64(4 * time.Second)))
	if random.IntN(4) == 0 {
		d = time.Duration(random.Int64N(int64(90 * time.Second)))
	}
	return d.Truncate(l.step)
}

// read returns the entry of the limit, or nil if nothing is in use.
func (l replayed) read(t *testing.T, keys admin.Keyspace) (found *admin.Entry) {
	for e, err := range keys.Scan(context.Background(), admin.Query{Subjects: mustPattern("*")}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.Contains(e.Key.Name, "@"): // a window past
		case found != nil:
			t.Fatalf("two limits: %+v and %+v", *found, e)
		default:
			found = &e
		}
	}
	return found
}

func (l replayed) expect(t *testing.T, r *replay, before *admin.Entry, allowed bool) {
	if got := l.take(r); got != allowed {
		t.Errorf("at %s it is %v that a request is allowed, want %v by what was read: %+v", r.now.UTC(), got, allowed, before)
	}
}
