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
	if c.ServerCPU != nil || c.Commands != nil || c.NetworkIn != nil || c.NetworkOut != nil {
		t.Errorf("figures that cannot be known: %+v", c)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], why) {
		t.Errorf("warned of %q, want it to say %q", warnings, why)
	}
}

// connected returns the client of the store at url.
func connected(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	_, client, _, err := connect.OpenWithClient(url, connect.Options{Prefix: store.DefaultPrefix, Timeout: 10 * time.Second})
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

func TestScripts(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 1, DisableIdentity: true})
	defer client.Close()
	meter, backend := cost.New(client), scripts(t, client)
	take(t, backend, 1, 1) // connects, and loads the script
	const decisions = 500
	usecBefore := usec(server, "evalsha")
	measured := meter.Begin(ctx)
	take(t, backend, decisions, 1)
	c := quiet(t, measured, decisions)
	want(t, "round trips", c.RoundTrips, 1)
	want(t, "commands", c.Commands, 4) // EVALSHA, and in it TIME, GET and SET
	want(t, "server time", c.ServerCPU, float64(usec(server, "evalsha")-usecBefore)/decisions)
	if number(t, "client time", c.ClientCPU) <= 0 {
		t.Errorf("%g µs of this process", *c.ClientCPU)
	}
	// *5 EVALSHA, sha, 1, the key and 21 packed bytes; the answer is $ and 36 bytes.
	words := []int{len("evalsha"), 40, len("1"), len(admin.OwnLayout(store.DefaultPrefix).StoreKey(key(0))), 21}
	request := len("*5\r\n")
	for _, n := range words {
		request += len("$\r\n\r\n") + len(strconv.Itoa(n)) + n
	}
	want(t, "bytes in", c.NetworkIn, float64(request))
	var state store.State
	state.Charge(many, 1, 0)
	reply := 7 + 2 + len(state.AppendRecord(nil))
	want(t, "bytes out", c.NetworkOut, float64(len("$\r\n\r\n")+len(strconv.Itoa(reply))+reply))

	// Nothing carries over to the next load.
	measured = meter.Begin(ctx)
	take(t, backend, 10, 1)
	c, _ = measured.End(ctx, 10)
	want(t, "round trips of a second load", c.RoundTrips, 1)
	want(t, "commands of a second load", c.Commands, 4)
	measured = meter.Begin(ctx)
	if c, warnings := measured.End(ctx, 0); c != (report.Cost{}) || warnings != nil {
		t.Errorf("of no decision: %+v, %q", c, warnings)
	}
}

// usec is the server's time for a command, including its own in scripts.
func usec(server *redistest.Server, command string) int64 {
	_, rest, _ := strings.Cut(fmt.Sprint(server.Do("INFO", "commandstats")), "cmdstat_"+command+":")
	_, rest, _ = strings.Cut(rest, "usec=")
	text, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func TestPipelinesAreOneRoundTrip(t *testing.T) {
	client := redistest.Start(t).Client()
	meter := cost.New(client)
	measured := meter.Begin(ctx)
	for range 3 {
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for range 10 {
				pipe.Eval(ctx, "return 1", nil)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	c, _ := measured.End(ctx, 30)
	want(t, "round trips", c.RoundTrips, 0.1)
	want(t, "commands", c.Commands, 1)
}

// The figures of all masters are added, and each has its own exchanges.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	url := "redis+cluster://" + strings.Join(cluster.Addrs(), ",")
	client := connected(t, url)
	meter, backend := cost.New(client), scripts(t, client)
	take(t, backend, 60, 60) // loads the script on each master
	for name, backend := range map[string]store.Store{"scripts": backend, "naive": naiveOn(t, client)} {
		measured := meter.Begin(ctx)
		take(t, backend, 300, 60)
		c := quiet(t, measured, 300)
		trips, commands := 1.0, 4.0
		if name == "naive" {
			trips, commands = 3, 3
		}
		want(t, name+": round trips", c.RoundTrips, trips)
		want(t, name+": commands", c.Commands, commands)
		if number(t, "server time", c.ServerCPU) <= 0 || number(t, "bytes in", c.NetworkIn) < 50 ||
			number(t, "bytes out", c.NetworkOut) < 10 {
			t.Errorf("%s: %g µs, %g bytes in, %g bytes out", name, *c.ServerCPU, *c.NetworkIn, *c.NetworkOut)
		}
	}
	// The figures of some masters are not those of all.
	measured := meter.Begin(ctx)
	take(t, backend, 10, 10)
	cluster.Masters[0].Kill()
	c, warnings := measured.End(ctx, 10)
	wantAbsent(t, c, warnings, "not known")
	want(t, "round trips", c.RoundTrips, 1)
}

func naiveOn(t *testing.T, client redis.UniversalClient) *naive.Store {
	t.Helper()
	backend, err := naive.New(client, store.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	return backend
}

func TestOthers(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	meter, backend := cost.New(client), scripts(t, client)
	take(t, backend, 1, 1)
	for _, test := range []struct {
		name    string
		command []any
		n       int
		warns   string
	}{
		{"nobody", []any{"PING"}, 0, ""},
		{"a monitor", []any{"INFO"}, 100, ""},
		{"a few", []any{"EVAL", "return 1", "0"}, 10, ""},
		{"scripts", []any{"EVAL", "return 1", "0"}, 11, "11 commands besides the 100"},
		{"another use", []any{"LLEN", "queue"}, 30, "30 commands"},
	} {
		measured := meter.Begin(ctx)
		take(t, backend, 100, 3)
		for range test.n {
			server.Do(test.command...)
		}
		_, warnings := measured.End(ctx, 100)
		if got := strings.Join(warnings, "\n"); !strings.Contains(got, test.warns) || (got == "") != (test.warns == "") {
			t.Errorf("%s: warned of %q, want %q", test.name, got, test.warns)
		}
	}
}

func TestWhatCannotBeKnown(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	meter, backend := cost.New(client), scripts(t, client)

	server.Do("ACL", "SETUSER", "writer", "on", ">secret", "~*", "+@all", "-info", "-memory|usage")
	restricted := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "writer", Password: "secret", DisableIdentity: true})
	defer restricted.Close()
	itsMeter, its := cost.New(restricted), scripts(t, restricted)
	measured := itsMeter.Begin(ctx)
	take(t, its, 10, 10)
	c, warnings := measured.End(ctx, 9) // the script was loaded once
	wantAbsent(t, c, warnings, "the user lacks the right to INFO (redis-cli ACL SETUSER writer +info)")
	want(t, "round trips", c.RoundTrips, 11.0/9)
	number(t, "client time", c.ClientCPU)
	warnings = cost.Sample(ctx, its, []store.Key{key(0)}, &c)
	if c.BytesPerKey != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "memory|usage") {
		t.Errorf("without the right to MEMORY USAGE: %v, warned of %q", c.BytesPerKey, warnings)
	}

	measured = meter.Begin(ctx)
	take(t, backend, 100, 1)
	server.Do("CONFIG", "RESETSTAT")
	take(t, backend, 1, 1)
	c, warnings = measured.End(ctx, 101)
	wantAbsent(t, c, warnings, "statistics reset")

	measured = meter.Begin(ctx)
	take(t, backend, 1, 1)
	server.Kill()
	c, warnings = measured.End(ctx, 1)
	wantAbsent(t, c, warnings, server.Addr)
}

// The traffic to replicas is not part of a decision's bytes.
func TestReplicationIsLeftOut(t *testing.T) {
	master, replica := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t)
	client := master.Client()
	meter, backend := cost.New(client), scripts(t, client)
	take(t, backend, 1, 1)
	measured := meter.Begin(ctx)
	take(t, backend, 500, 1)
	alone, _ := measured.End(ctx, 500)

	host, port, _ := strings.Cut(master.Addr, ":")
	replica.Do("REPLICAOF", host, port)
	master.Do("WAIT", 1, 0)
	measured = meter.Begin(ctx)
	take(t, backend, 500, 1)
	master.Do("WAIT", 1, 0)
	followed, _ := measured.End(ctx, 500)
	wantAbout(t, "bytes out with a replica", followed.NetworkOut, number(t, "bytes out", alone.NetworkOut), 1)
}

func TestEmbedded(t *testing.T) {
	meter, backend := cost.New(nil), memorystore.New()
	measured := meter.Begin(ctx)
	take(t, backend, 1000, 10)
	c, warnings := measured.End(ctx, 1000)
	if number(t, "client time", c.ClientCPU) < 0 || len(warnings) > 0 {
		t.Errorf("%+v, %q", c, warnings)
	}
	c.ClientCPU = nil
	if c != (report.Cost{}) {
		t.Errorf("figures without a server: %+v", c)
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
	// The sample represents all keys and comes from everywhere: the first key is not in use, and one is not a
	// string.
	before := server.CommandCalls("memory|usage")
	server.Do("RPUSH", admin.OwnLayout(store.DefaultPrefix).StoreKey(store.Key{Subject: "list", Name: "limit"}), "a")
	var c report.Cost
	if warnings := cost.Sample(ctx, backend, keys, &c); len(warnings) > 0 {
		t.Errorf("warned of %q", warnings)
	}
	wantAbout(t, "memory of a key", c.BytesPerKey, usage(key(100)), 8) // shorter subjects
	if c.BytesPerUnit != nil {
		t.Errorf("%g bytes for a unit of no log", *c.BytesPerUnit)
	}
	if sampled := server.CommandCalls("memory|usage") - before - 1; sampled != 100 {
		t.Errorf("%d keys were looked at", sampled)
	}

	log := store.Request{Key: store.Key{Subject: "log", Name: "limit"},
		Limit: store.Limit{Algorithm: store.SlidingLog, Count: 1000, Period: time.Hour}}
	for _, units := range []int64{1, 2, 4} {
		if _, err := storecall.New(backend).Take(ctx, log.Key, log.Limit, units); err != nil {
			t.Fatal(err)
		}
	}
	c = report.Cost{}
	foreign := store.Key{Subject: "list", Name: "limit"}
	if warnings := cost.Sample(ctx, backend, []store.Key{key(0), foreign, log.Key}, &c); len(warnings) > 0 {
		t.Errorf("beside a foreign value, warned of %q", warnings)
	}
	want(t, "memory of a key", c.BytesPerKey, (usage(key(0))+usage(log.Key))/2)
	want(t, "memory of a unit", c.BytesPerUnit, usage(log.Key)/7)

	c = report.Cost{}
	if cost.Sample(ctx, backend, keys[:1], &c); c != (report.Cost{}) {
		t.Errorf("of a key that is not in use: %+v", c)
	}
}
