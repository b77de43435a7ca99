package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// withRedis runs use with a client of a private server, which all contestants share: the same options, the same
// connections.
func withRedis(use func(client *redis.Client) error) error {
	server, err := redistest.Launch()
	if err != nil {
		return err
	}
	defer server.Stop()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	return use(client)
}

func redisContestants(client *redis.Client, q quota) ([]contestant, error) {
	backend, err := redisstore.Own(client)
	if err != nil {
		return nil, err
	}
	ours := storecall.New(backend)
	ourLimit := store.Limit{Count: int64(q.count), Period: q.period}

	rate := redis_rate.NewLimiter(client)
	rateLimit := redis_rate.Limit{Rate: q.count, Burst: q.count, Period: q.period}

	ululeStore, err := ululeredis.NewStore(client)
	if err != nil {
		return nil, err
	}
	fixed := ulule.New(ululeStore, ulule.Rate{Period: q.period, Limit: int64(q.count)})

	return []contestant{
		{"limitctl", takesOf(ours, ourLimit)},
		{"redis_rate", shared(func(ctx context.Context, key string) (bool, error) {
			r, err := rate.Allow(ctx, key, rateLimit)
			return err == nil && r.Allowed > 0, err
		})},
		{"ulule/limiter", shared(func(ctx context.Context, key string) (bool, error) {
			c, err := fixed.Get(ctx, key)
			return !c.Reached, err
		})},
	}, nil
}

// takesOf returns takes of one unit under limit.
func takesOf(l *storecall.Caller, limit store.Limit) func() take {
	return shared(func(ctx context.Context, key string) (bool, error) {
		d, err := l.Take(ctx, store.Key{Subject: key}, limit, 1)
		return d.Allowed, err
	})
}

func redisSection(ctx context.Context, p plan, out io.Writer) error {
	return withRedis(func(client *redis.Client) error {
		contestants, err := redisContestants(client, manyKeysQuota)
		if err != nil {
			return err
		}
		keys := subjects(manyKeys)
		var cells []cell
		for _, goroutines := range []int{1, 16, 64, 256} {
			cells = append(cells, cell{fmt.Sprintf("%d goroutines", goroutines), goroutines, keys, client})
		}
		cells[0].name = "1 goroutine"
		return takesTables(ctx, p, out, fmt.Sprintf("over %s keys", thousands(manyKeys)), contestants, cells)
	})
}

// takesTables measures contestants in cells, and writes the tables.
func takesTables(ctx context.Context, p plan, out io.Writer, title string, contestants []contestant, cells []cell) error {
	progress("redis: %s: filling the keys for each of %d contestants", title, len(contestants))
	measured, err := interleave(ctx, p, contestants, cells)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n### Redis: takes per second %s\n", title)
	table(out, medians(measured, contestants, cells, func(s sample) float64 { return s.perSecond }, thousands)...)
	for i := range contestants {
		if strings.HasPrefix(contestants[i].name, "limitctl") { // the store itself and layers around it
			table(out, ratios(measured[i:], contestants[i:], cells)...)
		}
	}
	fmt.Fprintf(out, "\nOf each take, µs of the client's processors + µs of the server's, and allocations:\n")
	rows := medians(measured, contestants, cells, func(s sample) float64 { return s.clientCPU }, decimals)
	server := medians(measured, contestants, cells, func(s sample) float64 { return s.serverCPU }, decimals)
	allocations := medians(measured, contestants, cells, func(s sample) float64 { return s.allocations }, decimals)
	for i := range contestants {
		for j := range cells {
			rows[i+1][j+1] += " + " + server[i+1][j+1] + ", " + allocations[i+1][j+1]
		}
	}
	table(out, rows...)
	return nil
}
