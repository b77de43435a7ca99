package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// In a Cluster families lie in one slot or in several. They come and go whole all the same, also
// while slots move.
func TestFamiliesInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	client := clusterClient(t, cluster, redis.ClusterOptions{})
	keys := othersOn(t, clusterClient(t, cluster, redis.ClusterOptions{}))
	limits := plant(t, client, rand.New(rand.NewPCG(3, 4)), 900)
	comeAndGo(t, client, keys, limits, "at rest")

	slot, err := cluster.SlotOf("pair:{moving}")
	if err != nil {
		t.Fatal(err)
	}
	owner, err := cluster.Owner(slot)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pair:{moving}", "pair:{moving}:timer", "double:{moving}"} {
		if err := client.Set(ctx, name, "5", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	client.HSet(ctx, "bucket:{moving}", "n", 5)
	limits += 3
	if err := cluster.BeginMoveSlot(slot, (owner+1)%3, "pair:{moving}", "pair:{moving}:timer", "bucket:{moving}"); err != nil {
		t.Fatal(err)
	}
	entries, errs := scanned(t, keys, admin.Query{Records: true})
	if len(entries) != limits || len(errs) > 0 {
		t.Errorf("while a slot moves %d limits of %d are found, %v", len(entries), limits, errs)
	}
	if e := entries[store.Key{Subject: "{moving}", Name: "pair"}]; len(e.Record.Members) != 2 || e.Used != 5 {
		t.Errorf("a family that has moved is %+v", e)
	}
	var records []admin.Record
	for _, e := range entries {
		records = append(records, e.Record)
	}
	if deleted, changed, err := keys.Delete(ctx, records...); deleted != limits || len(changed) > 0 || err != nil {
		t.Errorf("while a slot moves: deleted %d of %d, changed %v, %v", deleted, limits, changed, err)
	}
	// Two keys that are nowhere cannot be written while their slot has two masters.
	outcomes, err := keys.Import(ctx, false, entries[store.Key{Subject: "{moving}", Name: "pair"}].Record)
	if !store.IsAway(err) || outcomes[0] == admin.Imported || client.Exists(ctx, "pair:{moving}").Val() != 0 {
		t.Errorf("while a slot moves: importing its family came to %v, %v", outcomes, err)
	}
	if err := cluster.MoveSlot(slot, (owner+1)%3); err != nil {
		t.Fatal(err)
	}
	if outcomes, err := keys.Import(ctx, false, records...); err != nil || tally(outcomes)[admin.Imported] != limits {
		t.Errorf("when a slot has moved: importing came to %v, %v", tally(outcomes), err)
	}
}

// Slots move all the time while families are deleted with a backup and restored. Nothing is lost.
func TestFamiliesWhileSlotsMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	client := clusterClient(t, cluster, redis.ClusterOptions{MaxRedirects: 50})
	keys := othersOn(t, clusterClient(t, cluster, redis.ClusterOptions{MaxRedirects: 50}))
	const families = 40
	names := make([]string, families)
	for i := range names {
		names[i] = fmt.Sprintf("pair:{%d}", i)
		client.Set(ctx, names[i], 5, time.Hour)
		client.Set(ctx, names[i]+":timer", 5, time.Hour)
	}
	var stop atomic.Bool
	var moving sync.WaitGroup
	moving.Go(func() {
		for n := 0; !stop.Load(); n++ {
			slot, err := cluster.SlotOf(names[n%families])
			if err == nil {
				var owner int
				if owner, err = cluster.Owner(slot); err == nil {
					err = cluster.MoveSlot(slot, (owner+1)%3)
				}
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for round := range 5 {
		entries, errs := scanned(t, keys, admin.Query{Records: true})
		if len(entries) != families || len(errs) > 0 {
			t.Errorf("round %d: %d families are found of %d, %v", round, len(entries), families, errs)
			break
		}
		var records []admin.Record
		for _, e := range entries {
			if len(e.Record.Members) != 2 {
				t.Errorf("round %d: %v has %d parts", round, e.Key, len(e.Record.Members))
			}
			records = append(records, e.Record)
		}
		deleted, changed, err := keys.Delete(ctx, records...)
		if deleted != families || len(changed) > 0 || err != nil {
			t.Errorf("round %d: deleted %d, changed %d, %v", round, deleted, len(changed), err)
			break
		}
		if outcomes, err := keys.Import(ctx, false, records...); err != nil || tally(outcomes)[admin.Imported] != families {
			t.Errorf("round %d: importing came to %v, %v", round, tally(outcomes), err)
			break
		}
	}
	stop.Store(true)
	moving.Wait()
}

// A master that is away is named, and all limits that the others have whole are given.
func TestFamiliesWithoutAMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
	client := clusterClient(t, cluster, redis.ClusterOptions{})
	options := redis.ClusterOptions{MaxRetries: -1, MaxRedirects: 2}
	keys := othersOn(t, clusterClient(t, cluster, options))
	whole := 0
	lost := cluster.Masters[1]
	for i := range 60 {
		counter, timer := fmt.Sprintf("pair:%d", i), fmt.Sprintf("pair:%d:timer", i)
		client.Set(ctx, counter, 5, time.Hour)
		client.Set(ctx, timer, 5, time.Hour)
		away := 0
		for _, name := range []string{counter, timer} {
			slot, err := cluster.SlotOf(name)
			if err != nil {
				t.Fatal(err)
			}
			if owner, err := cluster.Owner(slot); err != nil {
				t.Fatal(err)
			} else if owner == 1 {
				away++
			}
		}
		if away == 0 {
			whole++
		}
	}
	if _, errs := scanned(t, keys, admin.Query{}); len(errs) > 0 { // which learns the Cluster
		t.Fatal(errs)
	}
	lost.Kill()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	found := 0
	var errs []error
	for e, err := range keys.Scan(ctx, admin.Query{Subjects: everyKey, Records: true}) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if found++; len(e.Record.Members) != 2 {
			t.Errorf("%v has %d parts", e.Key, len(e.Record.Members))
		}
	}
	var incomplete *admin.IncompleteError
	if found != whole || len(errs) != 1 || !errors.As(errs[0], &incomplete) || incomplete.Shard != lost.Addr ||
		strings.Count(errs[0].Error(), "are missing") != 1 {
		t.Errorf("%d limits were found of %d, and the errors are %v", found, whole, errs)
	}
}

// A master that hangs is waited for by each of the others once in a scan, however many limits have
// keys there.
func TestFamiliesBesideAMasterThatHangs(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
	client := clusterClient(t, cluster, redis.ClusterOptions{})
	pipe := client.Pipeline()
	for i := range 4000 {
		pipe.Set(ctx, fmt.Sprintf("pair:%d", i), 5, time.Hour)
		pipe.Set(ctx, fmt.Sprintf("pair:%d:timer", i), 5, time.Hour)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	hung := cluster.Masters[1]
	redistest.Patiently(t, 300*time.Millisecond, func(timeout time.Duration) (missing error) {
		asked := &pipelineCount{}
		reader := clusterClient(t, cluster, redis.ClusterOptions{ReadTimeout: timeout, MaxRetries: -1, MaxRedirects: 2})
		reader.OnNewNode(func(node *redis.Client) {
			if node.Options().Addr == hung.Addr {
				node.AddHook(asked)
			}
		})
		keys := othersOn(t, reader)
		if entries, errs := scanned(t, keys, admin.Query{}); len(entries) != 4000 || len(errs) > 0 { // which learns the Cluster
			return fmt.Errorf("%d limits were found, and the errors are %w", len(entries), errors.Join(errs...))
		}
		before := asked.count.Swap(0)
		hung.Pause()
		defer hung.Resume()
		entries, errs := scanned(t, keys, admin.Query{})
		if n := asked.count.Load(); n > 4 || before < 10 {
			t.Errorf("the master that hangs was asked %d times, and %d times before it did", n, before)
		}
		var incomplete *admin.IncompleteError
		if len(entries) == 0 || len(errs) != 1 || !errors.As(errs[0], &incomplete) || incomplete.Shard != hung.Addr {
			return fmt.Errorf("%d limits were found, and the errors are %w", len(entries), errors.Join(errs...))
		}
		return nil
	})
}

// pipelineCount counts the pipelines that a client sends.
type pipelineCount struct{ count atomic.Int64 }

func (c *pipelineCount) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (c *pipelineCount) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (c *pipelineCount) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count.Add(1)
		return next(ctx, cmds)
	}
}
