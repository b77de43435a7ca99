package cost_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/cost"
	"github.com/limitctl/limitctl/internal/naive"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var (
	ctx  = context.Background()
	many = store.Limit{Algorithm: store.FixedWindow, Count: store.MaxCount, Period: redistest.LongPeriod()}
)

// number returns a figure, and fails the test if it is absent.
func number(t *testing.T, name string, figure *float64) float64 {
	t.Helper()
	if figure == nil {
		t.Errorf("no %s", name)
		return math.NaN()
	}
	return *figure
}

func want(t *testing.T, name string, figure *float64, want float64) {
	t.Helper()
	if got := number(t, name, figure); got != want {
		t.Errorf("%s: %g for a decision, want %g", name, got, want)
	}
}

// wantAbout checks a figure with a tolerance, since it is a share of an inexact total.
func wantAbout(t *testing.T, name string, figure *float64, want, off float64) {
	t.Helper()
	if got := number(t, name, figure); !(math.Abs(got-want) <= off) {
		t.Errorf("%s: %g for a decision, want %g ± %g", name, got, want, off)
	}
}

// wantAbsent checks that the servers' figures are absent, with a warning.
func wantAbsent(t *testing.T, c report.Cost, warnings []string, why string) {
	t.Helper()
	if c.ServerCPU != nil {
		t.Errorf("figures that cannot be known: %+v", c)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], why) {
		t.Errorf("warned of %q, want it to say %q", warnings, why)
	}
}

// connected returns the client of the store at url.
func connected(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	_, client, _, err := connect.OpenWithClient(
		url, connect.Options{Prefix: store.DefaultPrefix, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func scripts(t *testing.T, client redis.UniversalClient) *redisstore.Store {
	t.Helper()
	backend, err := redisstore.Own(client)
	if err != nil {
		t.Fatal(err)
	}
	return backend
}

// quiet ends a measurement, which is to warn of nothing.
func quiet(t *testing.T, measured *cost.Measurement, decisions int64) report.Cost {
	t.Helper()
	c, warnings := measured.End(ctx, decisions)
	if len(warnings) > 0 {
		t.Errorf("warned of %q", warnings)
	}
	return c
}

// take takes a unit n times, of keys in turn, one call after the other.
func take(t *testing.T, backend store.Store, n, keys int) {
	t.Helper()
	l := storecall.New(backend)
	for i := range n {
		if _, err := l.Take(ctx, key(i%keys), many, 1); err != nil {
			t.Fatal(err)
		}
	}
}

func key(i int) store.Key { return store.Key{Subject: fmt.Sprint("user:", i), Name: "limit"} }

// usec is the server's time for a command, including its own in scripts.
func usec(server *redistest.Server, command string) int64 {
	_, rest, _ := strings.Cut(fmt.Sprint(server.Do("INFO", "commandstats")), "cmdstat_"+command+":")
	_, rest, _ = strings.Cut(rest, "usec=")
	text, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func TestScripts(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	backend := scripts(t, client)
	take(t, backend, 1, 1)                     // loads the script
	for _, decisions := range []int{500, 10} { // nothing carries over to the next load
		usecBefore := usec(server, "evalsha")
		measured := cost.Begin(ctx, client)
		take(t, backend, decisions, 1)
		c := quiet(t, measured, int64(decisions))
		want(t, "server time", c.ServerCPU, float64(usec(server, "evalsha")-usecBefore)/float64(decisions))
		if number(t, "client time", c.ClientCPU) <= 0 {
			t.Errorf("%g µs of this process", *c.ClientCPU)
		}
	}
	if c, warnings := cost.Begin(ctx, client).End(ctx, 0); c != (report.Cost{}) || warnings != nil {
		t.Errorf("of no decision: %+v, %q", c, warnings)
	}
}

// The figures of all masters are added; those of some are not those of all.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	client := connected(t, "redis+cluster://"+strings.Join(cluster.Addrs(), ","))
	backend := scripts(t, client)
	for _, backend := range []store.Store{backend, naive.New(client, store.DefaultPrefix)} {
		take(t, backend, 60, 60) // loads the script on each master
		measured := cost.Begin(ctx, client)
		take(t, backend, 300, 60)
		if c := quiet(t, measured, 300); number(t, "server time", c.ServerCPU) <= 0 {
			t.Errorf("%g µs", *c.ServerCPU)
		}
	}
	measured := cost.Begin(ctx, client)
	take(t, backend, 10, 10)
	cluster.Masters[0].Kill()
	c, warnings := measured.End(ctx, 10)
	wantAbsent(t, c, warnings, "not known")
}

func TestOthers(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	backend := scripts(t, client)
	take(t, backend, 1, 1)
	for n, warned := range map[int]int{0: 0, 10: 0, 11: 1} {
		measured := cost.Begin(ctx, client)
		take(t, backend, 100, 3)
		for range n {
			server.Do("EVAL", "return 1", "0")
			server.Do("INFO")
		}
		if _, warnings := measured.End(ctx, 100); len(warnings) != warned {
			t.Errorf("%d scripts of others: warned of %q", n, warnings)
		}
	}
}

func TestWhatCannotBeKnown(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	backend := scripts(t, client)

	server.Do("ACL", "SETUSER", "writer", "on", ">secret", "~*", "+@all", "-info", "-memory|usage")
	restricted := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "writer", Password: "secret",
		DisableIdentity: true})
	defer restricted.Close()
	its := scripts(t, restricted)
	measured := cost.Begin(ctx, restricted)
	take(t, its, 10, 10)
	c, warnings := measured.End(ctx, 10)
	wantAbsent(t, c, warnings, "the user lacks the right to INFO (redis-cli ACL SETUSER writer +info)")
	number(t, "client time", c.ClientCPU)
	warnings = cost.Sample(ctx, its, []store.Key{key(0)}, &c)
	if c.BytesPerKey != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "memory|usage") {
		t.Errorf("without the right to MEMORY USAGE: %v, warned of %q", c.BytesPerKey, warnings)
	}

	measured = cost.Begin(ctx, client)
	take(t, backend, 100, 1)
	server.Do("CONFIG", "RESETSTAT")
	take(t, backend, 1, 1)
	c, warnings = measured.End(ctx, 101)
	wantAbsent(t, c, warnings, "changed meanwhile")

	measured = cost.Begin(ctx, client)
	take(t, backend, 1, 1)
	server.Kill()
	c, warnings = measured.End(ctx, 1)
	wantAbsent(t, c, warnings, server.Addr)
}

func TestEmbedded(t *testing.T) {
	backend := memorystore.New()
	measured := cost.Begin(ctx, nil)
	take(t, backend, 1000, 10)
	c := quiet(t, measured, 1000)
	if number(t, "client time", c.ClientCPU) < 0 || c.ServerCPU != nil {
		t.Errorf("%+v", c)
	}
	cost.Sample(ctx, backend, []store.Key{key(0), key(1)}, &c)
	if got := number(t, "bytes", c.BytesPerKey); got < 30 || got > 200 {
		t.Errorf("%g bytes for a key", got)
	}
}

func TestSample(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	backend := scripts(t, client)
	take(t, backend, 300, 300)
	usage := func(key store.Key) float64 {
		return float64(server.Do("MEMORY", "USAGE", admin.OwnLayout(store.DefaultPrefix).StoreKey(key)).(int64))
	}
	keys := []store.Key{{Subject: "nobody", Name: "limit"}} // does not count
	for i := range 300 {
		keys = append(keys, key(i))
	}
	// The sample represents all keys and comes from everywhere: the first key is not in use, and one is not a string.
	before := server.CommandCalls("memory|usage")
	server.Do("RPUSH", admin.OwnLayout(store.DefaultPrefix).StoreKey(store.Key{Subject: "list", Name: "limit"}), "a")
	var c report.Cost
	if warnings := cost.Sample(ctx, backend, keys, &c); len(warnings) > 0 {
		t.Errorf("warned of %q", warnings)
	}
	wantAbout(t, "memory of a key", c.BytesPerKey, usage(key(100)), 8) // shorter subjects
	if sampled := server.CommandCalls("memory|usage") - before - 1; sampled != 100 {
		t.Errorf("%d keys were looked at", sampled)
	}

	c = report.Cost{}
	foreign := store.Key{Subject: "list", Name: "limit"}
	if warnings := cost.Sample(ctx, backend, []store.Key{key(0), foreign}, &c); len(warnings) > 0 {
		t.Errorf("beside a foreign value, warned of %q", warnings)
	}
	want(t, "memory of a key", c.BytesPerKey, usage(key(0)))

	c = report.Cost{}
	if cost.Sample(ctx, backend, keys[:1], &c); c != (report.Cost{}) {
		t.Errorf("of a key that is not in use: %+v", c)
	}
}
