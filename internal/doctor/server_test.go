package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var ctx = context.Background()

// examine examines a server.
func examine(t *testing.T, server *redistest.Server, change func(*Options)) (*Report, error) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true,
		MaxRetries:    -1,
		DialerRetries: 1})
	defer client.Close()
	options := Options{Prefix: "rl", ScanLimit: 100_000, Now: time.Now, Store: open(t, client)}
	change(&options)
	return Redis(ctx, client, options)
}

func open(t *testing.T, client redis.UniversalClient) store.Store {
	t.Helper()
	backend, err := redisstore.Own(client)
	must(t, err)
	return backend
}

// fill takes of so many keys.
func fill(t *testing.T, server *redistest.Server, n int) {
	t.Helper()
	backend := open(t, server.Client())
	for i := range n {
		key, limit := store.Key{Subject: fmt.Sprint("user:", i)}, store.Limit{Count: 100, Period: 1000 * time.Hour}
		_, err := storecall.New(backend).Take(ctx, key, limit, 1)
		must(t, err)
	}
}

func (r *Report) finding(t *testing.T, check string) Finding {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("no finding %q in %+v", check, r.Findings)
	}
	return r.Findings[i]
}

// The scan is bounded in keys and in time, and says so.
func TestTheScanIsBounded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	fill(t, server, 3000)
	report, err := examine(t, server, func(o *Options) { o.ScanLimit = 1000 })
	must(t, err)
	keys := report.finding(t, "keys")
	var limits, looked int
	if _, err := fmt.Sscanf(strings.ReplaceAll(keys.Summary, ",", ""),
		"stopped early: %d limits among the %d keys looked at", &limits, &looked); err != nil ||
		looked < 1000 || looked > 2000 || limits > looked {
		t.Errorf("with a limit of 1000: %+v", keys)
	}
	report, err = examine(t, server, func(o *Options) { o.ScanLimit = 0 })
	must(t, err)
	if keys := report.finding(t, "keys"); keys.Summary != "3,000 limits among all 3,000 keys of the store" {
		t.Errorf("without a limit: %+v", keys)
	}
}

// A server that stops in the middle: what was found before is there.
func TestAServerThatStopsInTheMiddle(t *testing.T) {
	server := redistest.Start(t)
	calls := 0
	report, err := examine(t, server, func(o *Options) {
		o.Now = func() time.Time { // it is asked after the server's own findings
			if calls++; calls == 1 {
				server.Kill()
			}
			return time.Now()
		}
	})
	if !store.IsAway(err) || !report.Reached || report.finding(t, "version").Status != OK ||
		strings.Contains(fmt.Sprint(report.Findings), "clock") {
		t.Errorf("%v, %+v", err, report)
	}
}

func TestAClusterIsExaminedAsAWhole(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
	servers := cluster.Masters
	examine := func() (*Report, error) {
		client := redis.NewClusterClient(
			&redis.ClusterOptions{Addrs: []string{servers[0].Addr}, DisableIdentity: true, MaxRedirects: -1,
				DialerRetries: 1})
		defer client.Close()
		return Redis(ctx, client, Options{Prefix: "rl", ScanLimit: 100, Now: time.Now, Store: open(t, client)})
	}
	report, err := examine()
	if err != nil || report.finding(t, "cluster").Summary != "all 16384 slots covered by 3 masters" {
		t.Errorf("%v, %+v", err, report.Findings)
	}
	versions := map[string]bool{}
	for _, f := range report.Findings {
		if !slices.Contains(checks(), f.Check) {
			t.Errorf("check %q has no place among the others", f.Check)
		}
		if f.Check == "version" {
			versions[f.Server] = true
		}
	}
	if !versions[servers[0].Addr] || !versions[servers[1].Addr] ||
		!strings.Contains(report.finding(t, "clock").Summary, "masters differ by") {
		t.Errorf("versions of %v; %+v", versions, report.finding(t, "clock"))
	}
	servers[1].Kill()
	report, err = examine()
	var dead Finding
	for _, f := range report.Findings {
		if f.Status == Fail && f.Check == "reachable" {
			dead = f
		}
	}
	if !store.IsAway(err) || !report.Reached || dead.Server != servers[1].Addr ||
		!strings.Contains(dead.Summary, servers[1].Addr) {
		t.Errorf("with one master dead: %v, %+v", err, report.Findings)
	}
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
