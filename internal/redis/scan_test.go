package redisserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/hostile"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// scanOf returns a scan that leaves its keys alone.
func scanOf(servers *redisserver.Servers) *redisserver.Scan {
	stride := redisserver.NewStride()
	return &redisserver.Scan{
		Servers: servers, Match: "*",
		Stride: func(redis.Cmdable) *redisserver.Stride { return stride },
		Known:  func(context.Context, int64) error { return nil },
		Read:   func(context.Context, redisserver.Page) error { return nil },
	}
}

// pages is a server whose scan has last pages, or no end for 0. size is its answer to DBSIZE.
func pages(last int64, size string, cursor func(n int64) int64) hostile.Behaviour {
	var scans, sizes atomic.Int64
	return hostile.Behaviour{Answer: func(c *hostile.Client) bool {
		answer := fmt.Sprintf(size, sizes.Load())
		if strings.EqualFold(c.Words[0], "scan") {
			n := scans.Add(1)
			next := cursor(n)
			if n == last {
				next = 0
			}
			answer = fmt.Sprintf("*2\r\n+%d\r\n*0\r\n", next)
		} else {
			sizes.Add(1)
		}
		_, err := c.Write([]byte(answer))
		return err == nil
	}}
}

func TestAScanEnds(t *testing.T) {
	t.Parallel()
	sound := redistest.Start(t).Addr
	counting := func(n int64) int64 { return n }
	for name, c := range map[string]struct {
		is   hostile.Behaviour
		says string // empty if the scan is in order
	}{
		"20 pages of few keys": {pages(20, ":1000\r\n%.0d", counting), ""},
		"pages without an end": {
			pages(0, ":1000\r\n%.0d", counting), " keys were looked at, and there are 1000"},
		"keys that came meanwhile":     {pages(605, ":1%d000\r\n", counting), ""}, // 10,000 at first, and then 11,000
		"a table that is nearly empty": {pages(450, ":1\r\n%.0d", counting), ""},  // as after the expiry of its keys
		"the same cursor": {pages(0, ":1000\r\n%.0d", func(int64) int64 { return 7 }),
			"the cursor 7 came twice in a row"},
		"two by turns": {pages(0, ":1000\r\n%.0d", func(n int64) int64 { return 1 + n%2 }),
			"its SCAN does not end"},
		"more keys than there can be": {pages(0, ":9223372036854775807\r\n%.0d", counting),
			"its DBSIZE is 9223372036854775807"},
		"nobody may say, and an end": {pages(50, "-NOPERM no\r\n%.0d", counting), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClient(
				&redis.Options{Addr: hostile.Start(t, sound, c.is, "SCAN", "DBSIZE").Addr, MaxRetries: -1})
			defer client.Close()
			servers := redisserver.New(client, "rl")
			ended := servers.Explain(scanOf(servers).All(context.Background()))
			refused := errors.Is(ended, store.ErrRefused)
			if c.says == "" && ended != nil || c.says != "" && (!refused || !strings.Contains(ended.Error(), c.says)) {
				t.Errorf("it ended with %v, want %q", ended, c.says)
			}
		})
	}
}
