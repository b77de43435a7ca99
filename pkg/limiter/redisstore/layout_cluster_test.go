package redisstore_test

import (
	"math/rand/v2"
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
