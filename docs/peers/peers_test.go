package peers

import (
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/sethvargo/go-redisstore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/limitctl/limitctl/internal/redistest"
	ours "github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

// Every library is there, and works with a server of the test's own.
func TestThePeersAreThere(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	if _, err := ours.New(client); err != nil {
		t.Fatal(err)
	}
	result, err := redis_rate.NewLimiter(client).Allow(t.Context(), "a", redis_rate.PerMinute(10))
	if err != nil || result.Remaining != 9 {
		t.Errorf("redis_rate: %+v, %v", result, err)
	}
	store, err := goredisstore.NewCtx(client, "b:")
	if err != nil {
		t.Fatal(err)
	}
	gcra, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerMin(10), MaxBurst: 9})
	if err != nil {
		t.Fatal(err)
	}
	if _, answer, err := gcra.RateLimitCtx(t.Context(), "a", 1); err != nil || answer.Remaining != 9 {
		t.Errorf("throttled: %+v, %v", answer, err)
	}
	windows, err := ululeredis.NewStore(client)
	if err != nil {
		t.Fatal(err)
	}
	counted, err := ulule.New(windows, ulule.Rate{Period: time.Minute, Limit: 10}).Get(t.Context(), "a")
	if err != nil || counted.Remaining != 9 {
		t.Errorf("ulule: %+v, %v", counted, err)
	}
	ticks, err := redisstore.New(&redisstore.Config{Tokens: 10, Interval: time.Minute, Dial: nil})
	if err != nil || ticks == nil {
		t.Errorf("sethvargo: %v", err)
	}
}
