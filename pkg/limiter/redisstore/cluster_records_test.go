package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Thousands of keys in many slots are deleted, written and adjusted to the last one,
// also while slots move, and values of others stay.
func TestRecordsOfACluster(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, redistest.StartCluster(t))
	client := clusterClient(t, c.cluster, redis.ClusterOptions{})
	foreign := []string{"rl:{" + c.large[0] + "}:foreign", "rl:{small:3}:foreign", "rl:{small:4}:foreign", "rl:{nobody}:foreign"}
	plant := func() {
		for _, storeKey := range foreign {
			if err := client.Set(ctx, storeKey, "hello", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	everything := slices.Clone(c.keys)
	for _, storeKey := range foreign {
		key, _ := admin.OwnLayout("rl").Match(storeKey)
		everything = append(everything, key)
	}
	check := func(when string) {
		t.Helper()
		records := c.records()
		if outcomes, err := c.store.Import(ctx, false, records...); err != nil || tally(outcomes)[admin.AlreadyThere] != len(records) {
			t.Errorf("%s: importing what is there: %v, %v", when, tally(outcomes), err)
		}
		// Every other key is used since it was scanned.
		changed := slices.Clone(records)
		for i := range changed {
			if i%2 == 0 {
				changed[i].Value = slices.Clone(changed[i].Value)
				changed[i].Value[len(changed[i].Value)-1]++
			}
		}
		for _, key := range everything[len(c.keys):] {
			changed = append(changed, admin.Record{Key: key})
		}
		deleted, found, err := c.store.Delete(ctx, changed...)
		if deleted != len(c.keys) || len(found) != len(c.keys)/2 || !errors.Is(err, store.ErrForeign) || store.IsAway(err) ||
			strings.Count(err.Error(), "holds 5 bytes") != len(foreign) {
			t.Errorf("%s: deleted %d of %d, of which %d were used since: %v", when, deleted, len(c.keys), len(found), err)
		}
		for _, storeKey := range foreign {
			if got, err := client.Get(ctx, storeKey).Result(); got != "hello" || err != nil {
				t.Errorf("%s: %s holds %q, %v", when, storeKey, got, err)
			}
		}
		if deleted, _, err := c.store.Delete(ctx, admin.Records(c.keys...)...); deleted != 0 || err != nil {
			t.Errorf("%s: deleted %d keys that are gone: %v", when, deleted, err)
		}
		if outcomes, err := c.store.Import(ctx, false, records...); err != nil || tally(outcomes)[admin.Imported] != len(records) {
			t.Errorf("%s: importing: %v, %v", when, tally(outcomes), err)
		}
		c.scan(t, when, admin.Query{Keys: c.keys}, c.which(all))
		adjustments := make([]admin.Adjustment, len(everything))
		for i, key := range everything {
			adjustments[i] = admin.Adjustment{Key: key, Limit: yearly(100), Used: 42}
		}
		results, err := c.store.Adjust(ctx, adjustments...)
		if !errors.Is(err, store.ErrForeign) || store.IsAway(err) || strings.Count(err.Error(), "holds 5 bytes") != len(foreign) {
			t.Errorf("%s: adjusting: %v", when, err)
		}
		for i, r := range results {
			if r.Done != (i < len(c.keys)) || r.Done && r.After != 42 {
				t.Errorf("%s: adjusting %s: %+v", when, everything[i], r)
			}
		}
		for first := 0; first < len(c.keys); first += 400 { // limits of one subject and of many, 50 a call
			reqs := make([]store.Request, 50)
			for i := range reqs {
				reqs[i] = store.Request{Key: c.keys[first+i], Limit: yearly(100), Cost: 42}
			}
			for _, op := range []store.Op{store.Adjust, store.Peek} {
				decisions := make([]store.Decision, len(reqs))
				if err := c.store.Decide(ctx, op, reqs, decisions); err != nil {
					t.Errorf("%s: %s: %v", when, op, err)
					continue
				}
				for i, d := range decisions {
					if d.Used != 42 {
						t.Errorf("%s: %s of %s: %+v", when, op, reqs[i].Key, d)
					}
				}
			}
		}
		c.fill(t)
	}
	plant()
	check("at rest")
	moves, stop := c.stir(t)
	for n := 0; !t.Failed() && moves() < 10; n++ {
		check(fmt.Sprintf("while slots move, %d", n))
	}
	stop()

	// A slot that stays half moved: a script gets its keys one by one.
	from, slot := owner(t, c.cluster, c.large[0])
	var moved []string
	for i := range 130 {
		moved = append(moved, admin.OwnLayout("rl").StoreKey(store.Key{Subject: c.large[0], Name: fmt.Sprint("limit/", 3*i)}))
	}
	if err := c.cluster.BeginMoveSlot(slot, (from+1)%3, moved...); err != nil {
		t.Fatal(err)
	}
	records := c.records()
	for _, want := range []int{len(records), 0} {
		if deleted, _, err := c.store.Delete(ctx, records...); deleted != want || err != nil {
			t.Errorf("with a slot half moved %d of %d were deleted: %v", deleted, want, err)
		}
	}
	if outcomes, err := c.store.Import(ctx, false, records...); err != nil || tally(outcomes)[admin.Imported] != len(records) {
		t.Errorf("with a slot half moved: %v, %v", tally(outcomes), err)
	}
	c.scan(t, "with a slot half moved", admin.Query{Keys: c.keys, Records: true}, c.which(all))
}

func tally(outcomes []admin.ImportOutcome) map[admin.ImportOutcome]int {
	n := map[admin.ImportOutcome]int{}
	for _, outcome := range outcomes {
		n[outcome]++
	}
	return n
}
