package cmd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// nightTime bounds what the night call waits for: far more than anything takes.
const nightTime = time.Minute

// service takes units for a tenant who asks for more than the limit and for others who do not.
type service struct {
	// overridden and denied are when the tenant was last decided under an override, and denied without one; in
	// microseconds, 0 if never.
	overridden, denied atomic.Int64
	deniedUnder        atomic.Int64 // how often the tenant was denied under an override
}

// startService starts a service on a Cluster, whose throttled tenant has nothing left.
func startService(t *testing.T, cluster *redistest.Cluster) *service {
	t.Helper()
	backend, err := redisstore.Own(redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), DisableIdentity: true}))
	if err != nil {
		t.Fatal(err)
	}
	served := layers.Stack(backend, layers.Layers{Overrides: layers.WatchOverrides(backend, store.Overrides{}, layers.Env{}),
		DenialLog: layers.CollectDenials(backend, store.DenialLog{}, nil)})
	ctx, quit := context.WithCancel(context.Background())
	var done sync.WaitGroup
	t.Cleanup(func() {
		quit()
		done.Wait()
		served.Close()
	})
	limits, limit := storecall.New(served), store.Limit{Count: 10_000, Period: 24 * time.Hour}
	throttled := store.Key{Subject: "tenant:acme:user:7", Name: "api/user"}
	if _, err := limits.Take(ctx, throttled, limit, limit.Count); err != nil {
		t.Fatal(err)
	}
	s := new(service)
	done.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			limits.Take(ctx, store.Key{Subject: fmt.Sprintf("tenant:t%d:user:1", i%50), Name: "api/user"}, limit, 1)
			d, err := limits.Take(ctx, throttled, limit, 1)
			now := time.Now().UnixMicro()
			switch {
			case err != nil:
			case d.Override == nil && !d.Allowed:
				s.denied.Store(now)
			case d.Override != nil:
				s.overridden.Store(now)
				if !d.Allowed {
					s.deniedUnder.Add(1)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return s
}

// waitFor waits until something is so, and returns whether it became so.
func waitFor(most time.Duration, so func() bool) bool {
	for deadline := time.Now().Add(most); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if so() {
			return true
		}
	}
	return so()
}

// operator is somebody at a machine of their own.
func operator(t *testing.T, name, backend string) *world {
	w := newWorld(t)
	w.Getenv = withVariable(withVariable(w.Getenv, "USER", name), "LIMITCTL_STORE", backend)
	w.Now = time.Now
	return w
}

// Somebody is throttled among many, is found, is let through for a while, and everybody on
// call can see who did that and why. It ends by itself.
func TestTheNightCall(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := startService(t, cluster)
	url := "redis+cluster://" + strings.Join(cluster.Addrs(), ",")
	anna := operator(t, "anna", url)

	// The first command: which tenant? The service tells the store once a second. The second: which of its keys?
	var stdout string
	if !waitFor(nightTime, func() bool {
		stdout, _ = anna.run(t, exitYes, "denials", "--by", "tenant", "-o", "jsonl")
		return stdout != ""
	}) || !strings.HasPrefix(stdout, `{"by":"tenant","value":"acme",`) || strings.Count(stdout, "\n") != 1 {
		t.Fatalf("denied are %s, want acme alone", stdout)
	}
	if stdout, _ := anna.run(t, exitYes, "denials", "tenant:acme:*"); !strings.Contains(stdout, "tenant:acme:user:7  api/user ") {
		t.Fatalf("denied are\n%s", stdout)
	}

	// The third triples the limit for a while, and denials stop and come back. On a machine that stands still for so long
	// that the override ends before the service has asked, it is set again for longer.
	for lasts := 2 * time.Second; ; lasts *= 2 {
		set := time.Now()
		anna.run(t, exitYes, "override", "set", "tenant:acme:*", "--times", "3", "--for", lasts.String(),
			"--reason", "launch day, ticket 4711", "--yes", "-o", "json")
		if waitFor(lasts, func() bool { return s.overridden.Load() > set.UnixMicro() }) {
			break
		}
		if lasts > nightTime {
			t.Fatal("no override came to the service")
		}
	}
	if !waitFor(2*nightTime, func() bool { return s.denied.Load() > s.overridden.Load() }) {
		t.Fatal("the override does not end")
	}
	if n := s.deniedUnder.Load(); n > 0 {
		t.Errorf("%d requests were denied under the override", n)
	}
	if stdout, _ := anna.run(t, exitYes, "override", "list", "-o", "json"); !strings.Contains(stdout, `"overrides": []`) {
		t.Errorf("after its end it is listed:\n%s", stdout)
	}
	ben := operator(t, "ben", url)
	stdout, _ = ben.run(t, exitYes, "audit", "-o", "json")
	for _, want := range []string{`"anna"`, `"launch day, ticket 4711"`, `'tenant:acme:*' --times 3`} {
		if !strings.Contains(stdout, want) {
			t.Errorf("another machine's audit does not have %s:\n%s", want, stdout)
		}
	}
}
