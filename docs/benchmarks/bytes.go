package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var (
	bytesQuota   = quota{count: 100, period: time.Minute}
	bytesSubject = "user:123456"
)

// logSizes are the usages, in units, at which the memory of a sliding log is measured.
var logSizes = []int{1_000, 1_250, 2_000, 10_000, 100_000}

func bytesSection(ctx context.Context, _ plan, out io.Writer) error {
	return withRedis(func(client *redis.Client) error {
		progress("bytes: a key of each contestant")
		rows, err := keyBytes(ctx, client)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n### Redis: bytes of the key of %s after a take under %d/1m\n", bytesSubject, bytesQuota.count)
		table(out, rows...)

		rows = [][]string{{"units in use", "growing: least", "growing: most", "after two thirds have left"}}
		log, err := newGrowingLog(client)
		if err != nil {
			return err
		}
		for _, units := range logSizes {
			progress("bytes: a sliding log of %d units", units)
			least, most, err := log.weigh(ctx, units)
			if err != nil {
				return err
			}
			shrunk := "not measured"
			if units <= maxShrunk {
				bytes, err := shrunkLog(ctx, client, units)
				if err != nil {
					return err
				}
				shrunk = decimals(bytes)
			}
			rows = append(rows, []string{thousands(float64(units)), decimals(least), decimals(most), shrunk})
		}
		fmt.Fprint(out, "\n### Redis: bytes per unit of limitctl's sliding log\n")
		table(out, rows...)
		return nil
	})
}

// keyBytes makes a table of the memory of one subject's key.
func keyBytes(ctx context.Context, client *redis.Client) ([][]string, error) {
	backend, err := redisstore.Own(client)
	if err != nil {
		return nil, err
	}
	var contestants []contestant
	for _, algorithm := range store.Algorithms() {
		limit := store.Limit{Algorithm: algorithm, Count: int64(bytesQuota.count), Period: bytesQuota.period}
		contestants = append(contestants, contestant{"limitctl, " + algorithm.String(), shared(
			func(ctx context.Context, key string) (bool, error) {
				d, err := storecall.New(backend).Take(ctx, store.Key{Subject: key}, limit, 1)
				return d.Allowed, err
			})})
	}
	all, err := redisContestants(client, bytesQuota)
	if err != nil {
		return nil, err
	}
	rows := [][]string{{"", "key", "bytes"}}
	for _, c := range append(contestants, all[1:]...) {
		if err := client.FlushDB(ctx).Err(); err != nil {
			return nil, err
		}
		if err := takeOne(ctx, c, c.take(), bytesSubject); err != nil {
			return nil, err
		}
		keys, err := client.Keys(ctx, "*").Result()
		if err != nil {
			return nil, err
		}
		if len(keys) != 1 {
			return nil, fmt.Errorf("%s made %d keys, not one", c.name, len(keys))
		}
		bytes, err := client.MemoryUsage(ctx, keys[0]).Result()
		if err != nil {
			return nil, err
		}
		rows = append(rows, []string{c.name, "`" + keys[0] + "`", thousands(float64(bytes))})
	}
	return rows, nil
}

// growingLog is a sliding log that gets one unit at a time, each at a different instant, and that loses none.
type growingLog struct {
	client   *redis.Client
	limiter  *storecall.Caller
	storeKey string
	units    int
}

var logLimit = store.Limit{Algorithm: store.SlidingLog, Count: store.MaxSlidingLogCount, Period: 24 * time.Hour}

func newGrowingLog(client *redis.Client) (*growingLog, error) {
	backend, err := redisstore.Own(client)
	if err != nil {
		return nil, err
	}
	return &growingLog{client: client, limiter: storecall.New(backend), storeKey: logStoreKey("growing")}, nil
}

func logStoreKey(subject string) string {
	return admin.OwnLayout(store.DefaultPrefix).StoreKey(store.Key{Subject: subject, Name: logLimit.DefaultName()})
}

// weigh grows the log to units and on to a quarter more, so that it passes each state of its spare memory once, and
// returns the least and the most bytes per unit on that way.
func (l *growingLog) weigh(ctx context.Context, units int) (least, most float64, err error) {
	const goroutines = 64
	missing := units - l.units
	err = parallel(goroutines, func(g int) error {
		for range (missing + g) / goroutines {
			if _, err := l.take(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	for l.units = units; err == nil && l.units < units+units/4; l.units++ {
		var bytes float64
		if bytes, err = bytesPerUnit(ctx, l.client, l.storeKey, l.units); err == nil {
			if least == 0 || bytes < least {
				least = bytes
			}
			most = max(most, bytes)
			var used int64
			if used, err = l.take(ctx); err == nil && used != int64(l.units+1) {
				err = fmt.Errorf("the log has %d units, not %d", used, l.units+1)
			}
		}
	}
	return least, most, err
}

func (l *growingLog) take(ctx context.Context) (used int64, err error) {
	d, err := l.limiter.Take(ctx, store.Key{Subject: "growing"}, logLimit, 1)
	return d.Used, err
}

func bytesPerUnit(ctx context.Context, client *redis.Client, storeKey string, units int) (float64, error) {
	bytes, err := client.MemoryUsage(ctx, storeKey).Result()
	return float64(bytes) / float64(units), err
}

// maxShrunk bounds shrunkLog, whose takes must be sequential.
const maxShrunk = 10_000

// shrunkLog fills a log with three times the units, lets two thirds of them leave the window, and returns the bytes
// per used unit.
func shrunkLog(ctx context.Context, client *redis.Client, units int) (float64, error) {
	now := time.Now()
	backend, err := redisstore.Own(client, redisstore.WithClock(func() time.Time { return now }))
	if err != nil {
		return 0, err
	}
	l, subject := storecall.New(backend), fmt.Sprintf("shrunk:%d", units)
	take := func() (store.Decision, error) {
		now = now.Add(time.Second)
		return l.Take(ctx, store.Key{Subject: subject}, logLimit, 1)
	}
	for range 3 * units {
		if _, err := take(); err != nil {
			return 0, err
		}
	}
	now = now.Add(logLimit.Period - time.Duration(units)*time.Second)
	d, err := take()
	if err != nil {
		return 0, err
	}
	if d.Used != int64(units) {
		return 0, errors.New("the units did not leave as planned")
	}
	return bytesPerUnit(ctx, client, logStoreKey(subject), units)
}
