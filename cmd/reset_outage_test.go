package cmd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A reset and its undo go on when the server hangs or dies in the middle and comes back: all keys are reset, and all of
// them come back with what was used of them.
func TestAResetAndItsUndoOutliveTheServer(t *testing.T) {
	tier.Full(t, "outages in series, and servers that hang")
	for name, test := range map[string]struct {
		away func(*redistest.Server)
		back func(*redistest.Server) error
	}{
		"hangs": {func(s *redistest.Server) { s.Pause() }, func(s *redistest.Server) error { s.Resume(); return nil }},
		"dies":  {func(s *redistest.Server) { s.Kill() }, func(s *redistest.Server) error { return s.Restart() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const all = 1100 // in three batches
			server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			client := server.Client()
			ctx := context.Background()
			backend, err := redisstore.Own(client)
			if err != nil {
				t.Fatal(err)
			}
			key := func(i int) store.Key { return store.Key{Subject: fmt.Sprintf("tenant:acme:%d", i), Name: "n"} }
			limit := store.Limit{Count: 10, Period: 100 * time.Hour}
			for i := range all {
				if _, err := storecall.New(backend).Take(ctx, key(i), limit, 1+int64(i%9)); err != nil {
					t.Fatal(err)
				}
			}
			w := newWorld(t)
			var mu sync.Mutex // of what follows
			away, outages := false, 0
			isTime := func(int64) bool { return false }
			g := newGate(t, server.Addr, func() bool {
				mu.Lock()
				defer mu.Unlock()
				if outages == 0 && isTime(limitsIn(ctx, client)) {
					outages, away = 1, true
					test.away(server)
				}
				return false
			})
			w.Sleep = func(ctx context.Context, d time.Duration) error {
				mu.Lock()
				defer mu.Unlock()
				w.now = w.now.Add(d)
				if away {
					if err := test.back(server); err != nil {
						t.Error(err)
					}
					away = false
				}
				return ctx.Err()
			}
			run := func(when func(limits int64) bool, args ...string) string {
				mu.Lock()
				outages, isTime = 0, when
				mu.Unlock()
				stdout, stderr := w.run(t, exitYes, append(args, "--yes", "-o", "jsonl", "--store", "redis://"+g.Addr,
					"--timeout", "1s")...)
				mu.Lock()
				defer mu.Unlock()
				if outages != 1 || away || strings.Count(stderr, "; trying again for up to 1m0s") != 1 {
					t.Errorf("%v: %d outages, and it says:\n%s", args, outages, stderr)
				}
				return stdout
			}
			stdout := run(func(limits int64) bool { return limits <= 600 }, "reset", "tenant:acme:*")
			if want := fmt.Sprintf(`"changed":%d`, all); !strings.Contains(stdout, want) || limitsIn(ctx, client) != 0 {
				t.Errorf("%d keys are left, and it says %s", limitsIn(ctx, client), stdout)
			}
			run(func(limits int64) bool { return limits >= 500 }, "undo")
			if n := limitsIn(ctx, client); n != all {
				t.Errorf("%d keys come back", n)
			}
			for i := range all {
				d, err := storecall.New(backend).Peek(ctx, key(i), limit, 1)
				if err != nil || d.Used != 1+int64(i%9) {
					t.Fatalf("key %d comes back with %+v, %v", i, d, err)
				}
			}
		})
	}
}
