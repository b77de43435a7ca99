package cmd

import (
	"context"
	"encoding/json"
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
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// nightTime bounds what the night call waits for. It is far more than anything takes: what is
// measured is logged, and not judged on a machine that others use, too.
const nightTime = time.Minute

// service is a running service: it takes units for a tenant who asks for more than the limit
// and for others who do not.
type service struct {
	store store.Store
	quit  context.CancelFunc
	done  sync.WaitGroup
	// overridden and denied are when the tenant was last decided under an override, and
	// denied; in microseconds, 0 if never.
	overridden, denied atomic.Int64
	deniedUnder        atomic.Int64 // how often the tenant was denied under an override
	allowedWithout     atomic.Int64 // when the tenant was last allowed without one
}

var (
	throttled  = store.Key{Subject: "tenant:acme:user:7", Name: "api/user"}
	nightLimit = store.Limit{Count: 10_000, Period: 24 * time.Hour}
)

// startService starts a service on a Cluster, whose throttled tenant has nothing left.
func startService(t *testing.T, cluster *redistest.Cluster) *service {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), DisableIdentity: true})
	backend, err := redisstore.Own(client)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, backend)
	ctx, quit := context.WithCancel(context.Background())
	s := &service{quit: quit}
	s.store = layers.WithDenialLog(layers.WithOverrides(backend, layers.Overrides{}), layers.DenialLog{})
	t.Cleanup(func() {
		quit()
		s.done.Wait()
		s.store.Close()
	})
	if _, err := storecall.New(s.store).Take(ctx, throttled, nightLimit, nightLimit.Count); err != nil {
		t.Fatal(err)
	}
	s.done.Go(func() { s.serve(ctx) })
	return s
}

// nightKeys is how many keys are in use that night.
const nightKeys = 100_000

// fill puts the other tenants' keys into a store. Some are at their limit, and nobody of them
// is denied.
func fill(t *testing.T, backend admin.Keyspace) {
	t.Helper()
	limit, err := nightLimit.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Millisecond)
	var records []admin.Record
	for i := range nightKeys {
		key := store.Key{Subject: fmt.Sprintf("tenant:t%d:user:%d", i%1000, i/1000), Name: "api/user"}
		cost := int64(1)
		if i%50 == 0 {
			cost = limit.Count
		}
		var state store.State
		state.Charge(limit, cost, store.InstantOf(now))
		records = append(records, admin.Record{Key: key, Value: state.AppendRecord(nil), Expires: now.Add(limit.Period)})
	}
	if _, err := backend.Import(context.Background(), true, records...); err != nil {
		t.Fatal(err)
	}
}

// serve takes, a hundred times a second at most, until ctx ends.
func (s *service) serve(ctx context.Context) {
	limits := storecall.New(s.store)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		other := store.Key{Subject: fmt.Sprintf("tenant:t%d:user:1", 1+i%49), Name: "api/user"} // none of those at their limit
		limits.Take(ctx, other, nightLimit, 1)
		d, err := limits.Take(ctx, throttled, nightLimit, 1)
		now := time.Now().UnixMicro()
		switch {
		case err != nil:
		case d.Override != nil:
			s.overridden.Store(now)
			if !d.Allowed {
				s.deniedUnder.Add(1)
			}
		case d.Allowed:
			s.allowedWithout.Store(now)
		default:
			s.denied.Store(now)
		}
	}
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
	getenv := w.Getenv
	w.Getenv = func(variable string) string {
		switch variable {
		case "USER":
			return name
		case "LIMITCTL_STORE":
			return backend
		}
		return getenv(variable)
	}
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

	// The first command: which tenant? The service tells the store once a second.
	var byTenant struct {
		Denials []struct {
			Value  string
			Denied int64
		}
	}
	found := waitFor(nightTime, func() bool {
		stdout, _ := anna.run(t, exitYes, "denials", "--by", "tenant", "-o", "json")
		if err := json.Unmarshal([]byte(stdout), &byTenant); err != nil {
			t.Fatal(err)
		}
		return len(byTenant.Denials) > 0
	})
	if !found || len(byTenant.Denials) != 1 || byTenant.Denials[0].Value != "acme" {
		t.Fatalf("denied are %+v, want acme alone", byTenant.Denials)
	}
	// The second: which of its keys?
	if stdout, _ := anna.run(t, exitYes, "denials", "tenant:acme:*"); !strings.Contains(stdout, "tenant:acme:user:7  api/user ") {
		t.Fatalf("denied are\n%s", stdout)
	}

	// The third lets them through. On a machine that stands still for so long that the override
	// ends before the service has asked, it is set again for longer.
	for lasts := 5 * time.Second; ; lasts *= 2 {
		if s.letThrough(t, anna, lasts) {
			break
		}
		if lasts > nightTime {
			t.Fatal("no override came to the service")
		}
	}
	if n := s.deniedUnder.Load(); n > 0 {
		t.Errorf("%d requests were denied under the override", n)
	}

	// It has ended by itself.
	if stdout, _ := anna.run(t, exitYes, "override", "list", "-o", "json"); !strings.Contains(stdout, `"overrides": []`) {
		t.Errorf("after its end it is listed:\n%s", stdout)
	}
	ben := operator(t, "ben", url)
	stdout, _ := ben.run(t, exitYes, "audit", "-o", "json")
	for _, want := range []string{`"anna"`, `"launch day, ticket 4711"`, `'tenant:acme:*' --times 3`} {
		if !strings.Contains(stdout, want) {
			t.Errorf("another machine's audit does not have %s:\n%s", want, stdout)
		}
	}
}

// letThrough triples the tenant's limit for so long, and sees the denials stop and come back.
// It returns false if the override ended before the service applied it.
func (s *service) letThrough(t *testing.T, anna *world, lasts time.Duration) bool {
	t.Helper()
	set := time.Now()
	anna.run(t, exitYes, "override", "set", "tenant:acme:*", "--times", "3", "--for", lasts.String(),
		"--reason", "launch day, ticket 4711", "--yes", "-o", "json")
	answered := time.Now()
	if !waitFor(lasts, func() bool { return s.overridden.Load() > set.UnixMicro() }) {
		return false
	}
	applied := time.UnixMicro(s.overridden.Load())
	t.Logf("the denials stopped %s after the command had ended", applied.Sub(answered).Round(time.Millisecond))
	if !waitFor(lasts+nightTime, func() bool { return s.denied.Load() > s.overridden.Load() }) {
		t.Fatalf("the override of %s has not ended %s later", lasts, time.Since(answered))
	}
	if ended := time.UnixMicro(s.overridden.Load()); ended.Sub(set) > lasts+nightTime {
		t.Errorf("the override of %s was applied for %s", lasts, ended.Sub(set))
	}
	return true
}
