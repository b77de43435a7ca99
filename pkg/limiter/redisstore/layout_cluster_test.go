package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
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
	limits := plant(t, client, rand.New(rand.NewPCG(3, 4)), 500)
	comeAndGo(t, client, keys, limits, "at rest")

	owner, slot := owner(t, cluster, "moving")
	for _, name := range []string{"pair:{moving}", "pair:{moving}:timer", "double:{moving}"} {
		must(t, client.Set(ctx, name, "5", time.Hour).Err())
	}
	client.HSet(ctx, "bucket:{moving}", "n", 5)
	limits += 3
	must(t, cluster.BeginMoveSlot(slot, (owner+1)%3, "pair:{moving}", "pair:{moving}:timer", "bucket:{moving}"))
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
	must(t, cluster.MoveSlot(slot, (owner+1)%3))
	if outcomes, err := keys.Import(ctx, false, records...); err != nil || tally(outcomes)[admin.Imported] != limits {
		t.Errorf("when a slot has moved: importing came to %v, %v", tally(outcomes), err)
	}
}

// A master that is away is named, and all limits that the others have whole are given. One that hangs is waited for by
// each of the others once in a scan, however many limits have keys there.
func TestFamiliesWithoutAMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
	pipe := clusterClient(t, cluster, redis.ClusterOptions{}).Pipeline()
	const families, sick = 4000, 1
	whole, lost := 0, cluster.Masters[sick]
	for i := range families {
		counter, timer := fmt.Sprintf("pair:%d", i), fmt.Sprintf("pair:%d:timer", i)
		pipe.Set(ctx, counter, 5, time.Hour)
		pipe.Set(ctx, timer, 5, time.Hour)
		at := func(key string) int { return (3*redisserver.SlotOf(key) + 2) / 16384 } // a third of the slots each, in order
		if at(counter) != sick && at(timer) != sick {
			whole++
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	var incomplete *admin.IncompleteError
	redistest.Patiently(t, 300*time.Millisecond, func(timeout time.Duration) (missing error) {
		asked := &pipelineCount{}
		reader := clusterClient(t, cluster, redis.ClusterOptions{ReadTimeout: timeout, MaxRetries: -1, MaxRedirects: 2})
		reader.OnNewNode(func(node *redis.Client) {
			if node.Options().Addr == lost.Addr {
				node.AddHook(asked)
			}
		})
		keys := othersOn(t, reader)
		if entries, errs := scanned(t, keys, admin.Query{}); len(entries) != families || len(errs) > 0 { // which learns the Cluster
			return fmt.Errorf("%d limits were found, and the errors are %w", len(entries), errors.Join(errs...))
		}
		before := asked.count.Swap(0)
		lost.Pause()
		defer lost.Resume()
		entries, errs := scanned(t, keys, admin.Query{})
		if n := asked.count.Load(); n > 4 || before < 10 {
			t.Errorf("the master that hangs was asked %d times, and %d times before it did", n, before)
		}
		if len(entries) == 0 || len(errs) != 1 || !errors.As(errs[0], &incomplete) || incomplete.Shard != lost.Addr {
			return fmt.Errorf("%d limits were found, and the errors are %w", len(entries), errors.Join(errs...))
		}
		return nil
	})
	keys := othersOn(t, clusterClient(t, cluster, redis.ClusterOptions{MaxRetries: -1, MaxRedirects: 2}))
	if _, errs := scanned(t, keys, admin.Query{}); len(errs) > 0 {
		t.Fatal(errs)
	}
	lost.Kill()
	entries, errs := scanned(t, keys, admin.Query{Records: true})
	for key, e := range entries {
		if len(e.Record.Members) != 2 {
			t.Errorf("%v has %d parts", key, len(e.Record.Members))
		}
	}
	if len(entries) != whole || len(errs) != 1 || !errors.As(errs[0], &incomplete) || incomplete.Shard != lost.Addr ||
		strings.Count(errs[0].Error(), "are missing") != 1 {
		t.Errorf("%d limits were found of %d, and the errors are %v", len(entries), whole, errs)
	}
}

// pipelineCount counts the pipelines that a client sends.
type pipelineCount struct {
	redisserver.PassHook
	count atomic.Int64
}

func (c *pipelineCount) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count.Add(1)
		return next(ctx, cmds)
	}
}
