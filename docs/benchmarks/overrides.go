package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// operatorsSection measures the cost of overrides and of counting denials for a service.
func operatorsSection(ctx context.Context, p plan, out io.Writer) error {
	if err := overriddenTakes(ctx, p, out); err != nil {
		return err
	}
	if err := overrideLooks(ctx, out); err != nil {
		return err
	}
	return denialWrites(ctx, out)
}

// setOverrides sets 1,000 overrides: of subjects, patterns and attributes. None applies to the measured keys, or
// one applies to all of them.
func setOverrides(ctx context.Context, table admin.OverrideTable, one store.Override) error {
	for i := range admin.MaxOverrides {
		o, text := store.Override{Effect: store.OverrideTimes, Thousandths: 2000}, fmt.Sprintf("tenant:%d", i)
		switch i % 10 {
		case 0:
			o.Attributes, text = map[string]string{"tenant": fmt.Sprint(i)}, "*"
		case 1, 2, 3:
			text += ":*"
		case 9:
			if i == admin.MaxOverrides-1 && one.Thousandths > 0 {
				o, text = one, "*"
			}
		}
		var err error
		if o.Subjects, err = store.ParsePattern(text); err != nil {
			return err
		}
		if _, err := table.SetOverride(ctx, o, time.Hour); err != nil {
			return err
		}
	}
	return nil
}

// underOverrides takes from memory with the overrides of set, nil for a store without the layer.
func underOverrides(ctx context.Context, name string, set func(admin.OverrideTable) error) (contestant, error) {
	inner := memorystore.New()
	var backend store.Store = inner
	if set != nil {
		if err := set(inner); err != nil {
			return contestant{}, err
		}
		watch := layers.WatchOverrides(inner, layers.Overrides{})
		if err := watch.Load(ctx); err != nil {
			return contestant{}, err
		}
		backend = watch.Wrap(inner)
	}
	limit, err := store.Limit{Count: int64(manyKeysQuota.count), Period: manyKeysQuota.period}.Normalize()
	if err != nil {
		return contestant{}, err
	}
	return contestant{name, func() take {
		reqs, decisions := make([]store.Request, 1), make([]store.Decision, 1)
		return func(ctx context.Context, key string) (bool, error) {
			reqs[0] = store.Request{Key: store.Key{Subject: key, Name: "api/user"}, Limit: limit, Cost: 1}
			err := backend.Decide(ctx, store.Take, reqs, decisions)
			return decisions[0].Allowed, err
		}
	}}, nil
}

func overriddenTakes(ctx context.Context, p plan, out io.Writer) error {
	var contestants []contestant
	for _, c := range []struct {
		name string
		set  func(admin.OverrideTable) error
	}{
		{"without the wrapper", nil},
		{"no overrides", func(admin.OverrideTable) error { return nil }},
		{"1,000 about others", func(t admin.OverrideTable) error { return setOverrides(ctx, t, store.Override{}) }},
		{"1,000, and one applies", func(t admin.OverrideTable) error {
			return setOverrides(ctx, t, store.Override{Effect: store.OverrideTimes, Thousandths: 1000})
		}},
	} {
		made, err := underOverrides(ctx, c.name, c.set)
		if err != nil {
			return err
		}
		contestants = append(contestants, made)
	}
	keys := subjects(manyKeys)
	cells := []cell{{name: "1 goroutine", goroutines: 1, keys: keys}, {name: "2 goroutines", goroutines: 2, keys: keys}}
	progress("overrides: %d contestants in memory", len(contestants))
	measured, err := interleave(ctx, p, contestants, cells)
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\n### Overrides: nanoseconds of the processors per take in memory\n")
	table(out, medians(measured, contestants, cells, func(s sample) float64 { return s.clientCPU * 1000 }, decimals)...)
	fmt.Fprint(out, "\n### Overrides: allocations per take in memory\n")
	table(out, medians(measured, contestants, cells, func(s sample) float64 { return s.allocations }, decimals)...)
	return nil
}

// denying is a store that denies everything at once.
type denying struct{ store.Store }

func (denying) Decide(_ context.Context, _ store.Op, _ []store.Request, decisions []store.Decision) error {
	for i := range decisions {
		decisions[i] = store.Decision{RetryAfter: time.Second}
	}
	return nil
}

// besideRedis runs do with a store on a new server, and returns the server's counters: calls of a command, and
// received bytes.
func besideRedis(command string, do func(backend *redisstore.Store) error) (calls, bytes int, err error) {
	server, err := redistest.Launch()
	if err != nil {
		return 0, 0, err
	}
	defer server.Stop()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	backend, err := redisstore.Own(redis.NewClient(&redis.Options{Addr: server.Addr}))
	if err != nil {
		return 0, 0, err
	}
	ctx := context.Background()
	if err := client.ConfigResetStat(ctx).Err(); err != nil {
		return 0, 0, err
	}
	if err := errors.Join(do(backend), backend.Close()); err != nil {
		return 0, 0, err
	}
	info, err := client.InfoMap(ctx, "stats", "commandstats").Result()
	if err != nil {
		return 0, 0, err
	}
	_, words, _ := strings.Cut(info["Commandstats"]["cmdstat_"+command], "calls=")
	fmt.Sscan(strings.ReplaceAll(words, ",", " "), &calls)
	fmt.Sscan(info["Stats"]["total_net_input_bytes"], &bytes)
	return calls, bytes, nil
}

const operatorsLength = 5 * time.Second

// overrideLooks counts how often a busy service checks for overrides in Redis.
func overrideLooks(ctx context.Context, out io.Writer) error {
	progress("overrides: %s of looks", operatorsLength)
	looks, bytes, err := besideRedis("getrange", func(backend *redisstore.Store) error {
		_, err := deny(ctx, layers.WithOverrides(store.Wrap(denying{backend}, backend), layers.Overrides{}))
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\n### Overrides: what a service that decides all the time asks Redis\n")
	seconds := operatorsLength.Seconds()
	table(out, []string{"", "looks a second", "bytes a second"},
		[]string{"a store without overrides", decimals(float64(looks) / seconds), decimals(float64(bytes) / seconds)})
	return nil
}

const (
	deniedKeys      = 100_000
	deniedPerSecond = 1_000_000
)

// deny denies a million takes a second of 100,000 keys, as far as the machine can.
func deny(ctx context.Context, backend store.Store) (denied int64, err error) {
	keys := make([]string, deniedKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("tenant:%d:user:%d", i%500, i)
	}
	var count atomic.Int64
	start := time.Now()
	err = parallel(2, func(g int) error {
		reqs, decisions := make([]store.Request, 1), make([]store.Decision, 1)
		limit := store.Limit{Algorithm: store.TokenBucket, Count: 100, Burst: 100, Period: time.Minute}
		for i := g; time.Since(start) < operatorsLength; i += 7 {
			reqs[0] = store.Request{Key: store.Key{Subject: keys[i%deniedKeys], Name: "api/user-minute"}, Limit: limit, Cost: 1}
			if err := backend.Decide(ctx, store.Take, reqs, decisions); err != nil {
				return err
			}
			for n := count.Add(1); float64(n) > time.Since(start).Seconds()*deniedPerSecond; {
				time.Sleep(time.Millisecond)
			}
		}
		return nil
	})
	return count.Load(), err
}

// denialWrites measures what counting denials writes and stores.
func denialWrites(ctx context.Context, out io.Writer) error {
	progress("denials: %s of them", operatorsLength)
	var denied int64
	var held int64
	writes, bytes, err := besideRedis("hset", func(inner *redisstore.Store) error {
		plain := store.Wrap(denying{inner}, inner)
		backend := layers.WithDenialLog(plain, layers.DenialLog{})
		before := heap()
		var err error
		denied, err = deny(ctx, backend)
		held = heap() - before
		runtime.KeepAlive(backend)
		return err
	})
	if err != nil {
		return err
	}
	seconds := operatorsLength.Seconds()
	fmt.Fprint(out, "\n### Denials: what their count costs\n")
	table(out, []string{"", "denials a second", "writes a second", "bytes a write", "heap held"},
		[]string{thousands(deniedKeys) + " keys", thousands(float64(denied) / seconds), decimals(float64(writes) / seconds),
			thousands(float64(bytes / max(1, writes))), thousands(float64(held))})
	return nil
}

// heap returns the number of bytes in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
