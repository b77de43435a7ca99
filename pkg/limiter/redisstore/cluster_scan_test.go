package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// crowd is 2,000 keys: of three subjects with four hundred each, whose slots are large,
// and of four hundred others with two each.
type crowd struct {
	cluster *redistest.Cluster
	store   *redisstore.Store
	large   []string
	keys    []store.Key
	expires time.Time
}

func newCrowd(t *testing.T, cluster *redistest.Cluster) *crowd {
	t.Helper()
	large := subjectsOn(t, cluster, "large")
	c := &crowd{cluster: cluster, large: large[:], expires: time.Now().Add(24 * time.Hour).Truncate(time.Millisecond)}
	for i := range 400 {
		for _, subject := range c.large {
			c.keys = append(c.keys, store.Key{Subject: subject, Name: fmt.Sprint("limit/", i)})
		}
		for _, name := range []string{"a", "b"} {
			c.keys = append(c.keys, store.Key{Subject: fmt.Sprint("small:", i), Name: name})
		}
	}
	_, c.store = onCluster(t, redis.ClusterOptions{Addrs: cluster.Addrs(), DialerRetries: 1})
	c.fill(t)
	return c
}

// crowdRecord is what the crowd's keys hold: 7 of 100 used.
func crowdRecord(key store.Key, expires time.Time) admin.Record {
	var state store.State
	limit, _ := yearly(100).Normalize()
	state.Charge(limit, 7, store.InstantOf(expires.Add(-24*time.Hour)))
	return admin.Record{Key: key, Value: state.AppendRecord(nil), Expires: expires}
}

func (c *crowd) records() []admin.Record {
	records := make([]admin.Record, len(c.keys))
	for i, key := range c.keys {
		records[i] = crowdRecord(key, c.expires)
	}
	return records
}

func (c *crowd) fill(t *testing.T) {
	t.Helper()
	outcomes, err := c.store.Import(ctx, true, c.records()...)
	for i := range outcomes {
		if outcomes[i] != admin.Imported {
			t.Fatalf("%s: outcome %d", c.keys[i], outcomes[i])
		}
	}
	must(t, err)
}

// which returns those of the crowd's keys that selects says.
func (c *crowd) which(selects func(store.Key) bool) map[store.Key]int {
	want := map[store.Key]int{}
	for _, key := range c.keys {
		if selects(key) {
			want[key] = 1
		}
	}
	return want
}

func all(store.Key) bool { return true }

// scan wants each of those keys once, and each whole.
func (c *crowd) scan(t *testing.T, what string, q admin.Query, want map[store.Key]int) {
	t.Helper()
	found := map[store.Key]int{}
	for entry, err := range c.store.Scan(ctx, q) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		found[entry.Key]++
		sound := entry.Decision.Used == 7 && entry.Limit.Count == 100 && entry.TTL > 23*time.Hour &&
			entry.TTL <= 24*time.Hour &&
			entry.StoreKey == admin.OwnLayout("rl").StoreKey(entry.Key) && (!q.Bytes || entry.Bytes > 20) &&
			(!q.Records || entry.Record.Key == entry.Key && len(entry.Record.Value) > 26 &&
				time.Until(entry.Record.Expires) > 23*time.Hour)
		if !sound {
			t.Fatalf("%s: found %+v", what, entry)
		}
	}
	if !maps.Equal(found, want) {
		maps.DeleteFunc(found, func(key store.Key, n int) bool { return n == want[key] })
		t.Errorf("%s: of %d keys some are missed, or else come too often: %v", what, len(want), found)
	}
}

// stir moves slots of the crowd there and back until stop is called; moved tells how many so far.
func (c *crowd) stir(t *testing.T) (moved func() int64, stop func()) {
	t.Helper()
	subjects := append([]string(nil), c.large...)
	for i := range 12 {
		subjects = append(subjects, fmt.Sprint("small:", i))
	}
	type home struct{ master, slot int }
	homes := make([]home, len(subjects))
	for i, subject := range subjects {
		homes[i].master, homes[i].slot = owner(t, c.cluster, subject)
	}
	done := make(chan struct{})
	var moves atomic.Int64
	var moving sync.WaitGroup
	moving.Go(func() {
		for n := 0; ; n++ {
			h := homes[n%len(homes)]
			// Away and back at once, so that who looks before and after sees no change.
			for _, to := range []int{(h.master + 1 + n%2) % 3, h.master} {
				if err := c.cluster.MoveSlot(h.slot, to); err != nil {
					t.Error(err)
					return
				}
				moves.Add(1)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	var once sync.Once
	stop = func() { once.Do(func() { close(done); moving.Wait() }) }
	t.Cleanup(stop)
	return moves.Load, stop
}

func TestScanOfACluster(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, redistest.StartCluster(t))
	large := mustPattern(c.large[1])
	names := mustPattern("limit/*")
	some := func(key store.Key) bool { return strings.HasSuffix(key.Name, "7") || key.Name == "b" }
	queries := map[string]struct {
		query   admin.Query
		selects func(store.Key) bool
	}{
		"all": {admin.Query{Subjects: everyKey, Records: true, Bytes: true}, all},
		"subject": {admin.Query{Subjects: large, Bytes: true}, func(key store.Key) bool {
			return key.Subject == c.large[1]
		}},
		"names": {admin.Query{Subjects: everyKey, Names: names}, func(key store.Key) bool {
			return names.Match(key.Name)
		}},
		"match": {admin.Query{Subjects: everyKey, Match: some}, some},
		"keys":  {admin.Query{Keys: c.keys, Records: true, Bytes: true}, all},
	}
	for name, q := range queries {
		c.scan(t, name, q.query, c.which(q.selects))
	}

	// While slots move each key still comes once.
	moves, stop := c.stir(t)
	for n := range 2 {
		for name, q := range queries {
			c.scan(t, fmt.Sprintf("%s while slots move, %d", name, n), q.query, c.which(q.selects))
		}
	}
	// A key that leaves between two looks at it is followed, which takes many looks to happen.
	for n := 0; !t.Failed() && (n < 5 || moves() < 20); n++ {
		c.scan(t, fmt.Sprintf("keys while slots move, again %d", n), queries["keys"].query, c.which(all))
	}
	stop()

	// With slots that stay half moved, some keys on each side.
	for _, subject := range c.large {
		from, slot := owner(t, c.cluster, subject)
		var moved []string
		for i := range 200 {
			moved = append(moved, admin.OwnLayout("rl").StoreKey(
				store.Key{Subject: subject, Name: fmt.Sprint("limit/", 2*i)}))
		}
		must(t, c.cluster.BeginMoveSlot(slot, (from+1)%3, moved...))
	}
	for name, q := range queries {
		c.scan(t, name+" with slots half moved", q.query, c.which(q.selects))
	}
}

// Who may not look at single slots is refused while one is half moved, and told the right, instead of missing keys.
func TestScanWithoutTheRightToSlots(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, redistest.StartCluster(t))
	for _, master := range c.cluster.Masters {
		client := socketClient(t, &redistest.Server{Process: master})
		must(t, client.Do(ctx, "ACL", "SETUSER", "default", "-cluster|getkeysinslot").Err())
	}
	from, slot := owner(t, c.cluster, c.large[0])
	half := admin.OwnLayout("rl").StoreKey(store.Key{Subject: c.large[0], Name: "limit/7"})
	must(t, c.cluster.BeginMoveSlot(slot, (from+1)%3, half))
	for _, pattern := range []store.Pattern{mustPattern(c.large[0]), everyKey} {
		var last error
		for _, err := range c.store.Scan(ctx, admin.Query{Subjects: pattern}) {
			last = err
		}
		if !errors.Is(last, store.ErrRefused) || !strings.Contains(last.Error(), "cluster|getkeysinslot") {
			t.Errorf("a scan of %v ends with %v", pattern, last)
		}
	}
}

// Thousands of keys in many slots are deleted, written and adjusted to the last one, also while slots move.
func TestRecordsOfACluster(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, redistest.StartCluster(t))
	records := c.records()
	imports := func(when string, want admin.ImportOutcome) {
		t.Helper()
		if outcomes, err := c.store.Import(ctx, false, records...); err != nil ||
			tally(outcomes)[want] != len(records) {
			t.Errorf("%s: importing: %v, %v", when, tally(outcomes), err)
		}
	}
	deletes := func(when string, want int) {
		t.Helper()
		if deleted, _, err := c.store.Delete(ctx, records...); deleted != want || err != nil {
			t.Errorf("%s: deleted %d of %d: %v", when, deleted, want, err)
		}
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
		deleted, found, err := c.store.Delete(ctx, changed...)
		if deleted != len(c.keys) || len(found) != len(c.keys)/2 || err != nil {
			t.Errorf("%s: deleted %d of %d, of which %d were used since: %v", when, deleted, len(c.keys), len(found),
				err)
		}
		deletes(when, 0)
		imports(when, admin.Imported)
		c.scan(t, when, admin.Query{Keys: c.keys}, c.which(all))
		adjustments := make([]admin.Adjustment, len(c.keys))
		for i, key := range c.keys {
			adjustments[i] = admin.Adjustment{Key: key, Limit: yearly(100), Used: 42}
		}
		results, err := c.store.Adjust(ctx, adjustments...)
		if err != nil || slices.ContainsFunc(results, func(r admin.Adjusted) bool { return r.After != 42 }) {
			t.Errorf("%s: adjusting: %v, %v", when, results, err)
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
		moved = append(moved, admin.OwnLayout("rl").StoreKey(
			store.Key{Subject: c.large[0], Name: fmt.Sprint("limit/", 3*i)}))
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
