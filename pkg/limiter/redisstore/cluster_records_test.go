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
	records, everything := c.records(), slices.Clone(c.keys)
	var foreign []string
	for _, subject := range []string{c.large[0], "small:3", "nobody"} {
		key := store.Key{Subject: subject, Name: "foreign"}
		everything, foreign = append(everything, key), append(foreign, admin.OwnLayout("rl").StoreKey(key))
		must(t, client.Set(ctx, foreign[len(foreign)-1], "hello", 0).Err())
	}
	imports := func(when string, want admin.ImportOutcome) {
		t.Helper()
		if outcomes, err := c.store.Import(ctx, false, records...); err != nil || tally(outcomes)[want] != len(records) {
			t.Errorf("%s: importing: %v, %v", when, tally(outcomes), err)
		}
	}
	deletes := func(when string, want int) {
		t.Helper()
		if deleted, _, err := c.store.Delete(ctx, records...); deleted != want || err != nil {
			t.Errorf("%s: deleted %d of %d: %v", when, deleted, want, err)
		}
	}
	onlyForeign := func(err error) bool {
		return errors.Is(err, store.ErrForeign) && !store.IsAway(err) && strings.Count(err.Error(), "holds 5 bytes") == len(foreign)
	}
	check := func(when string) {
		t.Helper()
		imports(when, admin.AlreadyThere)
		// Every other key is used since it was scanned.
		changed := slices.Clone(records)
		for i := 0; i < len(changed); i += 2 {
			changed[i].Value = slices.Clone(changed[i].Value)
			changed[i].Value[len(changed[i].Value)-1]++
		}
		changed = append(changed, admin.Records(everything[len(c.keys):]...)...)
		deleted, found, err := c.store.Delete(ctx, changed...)
		if deleted != len(c.keys) || len(found) != len(c.keys)/2 || !onlyForeign(err) {
			t.Errorf("%s: deleted %d of %d, of which %d were used since: %v", when, deleted, len(c.keys), len(found), err)
		}
		deletes(when, 0)
		imports(when, admin.Imported)
		c.scan(t, when, admin.Query{Keys: c.keys}, c.which(all))
		adjustments := make([]admin.Adjustment, len(everything))
		for i, key := range everything {
			adjustments[i] = admin.Adjustment{Key: key, Limit: yearly(100), Used: 42}
		}
		results, err := c.store.Adjust(ctx, adjustments...)
		if !onlyForeign(err) {
			t.Errorf("%s: adjusting: %v", when, err)
		}
		for i, r := range results {
			if r.Done != (i < len(c.keys)) || r.Done && r.After != 42 {
				t.Errorf("%s: adjusting %s: %+v", when, everything[i], r)
			}
		}
		for _, storeKey := range foreign {
			if got, err := client.Get(ctx, storeKey).Result(); got != "hello" || err != nil {
				t.Errorf("%s: %s holds %q, %v", when, storeKey, got, err)
			}
		}
		c.fill(t)
	}
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
	must(t, c.cluster.BeginMoveSlot(slot, (from+1)%3, moved...))
	deletes("with a slot half moved", len(records))
	deletes("with a slot half moved, again", 0)
	imports("with a slot half moved", admin.Imported)
	c.scan(t, "with a slot half moved", admin.Query{Keys: c.keys, Records: true}, c.which(all))
}

func tally(outcomes []admin.ImportOutcome) map[admin.ImportOutcome]int {
	n := map[admin.ImportOutcome]int{}
	for _, outcome := range outcomes {
		n[outcome]++
	}
	return n
}
