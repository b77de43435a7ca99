package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What comes back of a limit that was used between the scan and the setting are its own parts alone:
// no counters of others in the same hash, and not the limit that all have in common.
func TestOnlyItsOwnPartsComeBackOfASetLimit(t *testing.T) {
	t.Parallel()
	at := func() time.Time { return time.Unix(1_795_294_335, 0) }
	for layoutName, c := range map[string]struct {
		write [][]any
		use   []any
		want  string
	}{
		"kong": {
			write: [][]any{{"HSET", "1795294320:60:ns", "alice", 4, "bob", 7}, {"HSET", "1795294260:60:ns", "bob", 9},
				{"EXPIRE", "1795294320:60:ns", 100}, {"EXPIRE", "1795294260:60:ns", 40}},
			use:  []any{"HINCRBY", "1795294320:60:ns", "alice", 1},
			want: "[1795294320:60:ns/alice=5]",
		},
		"upstash": {
			write: [][]any{{"SET", "@upstash/ratelimit:alice:29921572", 4, "EX", 55}, {"SET", "@upstash/ratelimit:dynamic:global", 20}},
			use:   []any{"INCR", "@upstash/ratelimit:alice:29921572"},
			want:  "[@upstash/ratelimit:alice:29921572/=string]",
		},
	} {
		t.Run(layoutName, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			layout, err := layouts.Named(layoutName)
			if err != nil {
				t.Fatal(err)
			}
			backend, err := redisstore.Own(server.Client(), redisstore.WithClock(at))
			if err != nil {
				t.Fatal(err)
			}
			limit := store.Limit{Count: 20, Period: time.Minute, Burst: 20}
			keys := backend.OtherLimiters(layouts.Sources{{Layout: layout, Limit: limit}})
			for _, command := range c.write {
				server.Do(command...)
			}
			var a admin.Adjustment
			entries, errs := scanned(t, keys, admin.Query{Records: true})
			for key, e := range entries {
				if key.Subject == "alice" {
					a = admin.Adjustment{Key: key, Limit: e.Limit, Used: 1, Members: e.Record.Members}
				}
			}
			if len(errs) > 0 || len(a.Members) != 1 {
				t.Fatalf("it finds %+v, %v", entries, errs)
			}
			server.Do(c.use...)
			results, err := keys.Adjust(ctx, a)
			if err != nil || !results[0].Done || results[0].Before != 5 {
				t.Fatalf("it was set: %+v, %v", results, err)
			}
			var got []string
			for _, part := range results[0].Record.Members {
				value := part.Type
				if part.Field != "" {
					value = string(part.Dump)
				}
				got = append(got, part.StoreKey+"/"+part.Field+"="+value)
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("what comes back is %v, want %s", got, c.want)
			}
		})
	}
}
