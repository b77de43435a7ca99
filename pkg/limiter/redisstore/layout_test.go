package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// plant plants random families of all layouts, and returns how many keys a scan finds.
func plant(t testing.TB, client redis.UniversalClient, random *rand.Rand, n int) (limits int) {
	t.Helper()
	pipe := client.Pipeline()
	ttl := func() time.Duration { return time.Duration(60+random.IntN(6000)) * time.Second }
	for i := range n {
		tag := fmt.Sprint(i)
		if random.IntN(2) == 0 {
			tag = "{" + tag + "}"
		}
		switch kept := ttl(); random.IntN(4) {
		case 0:
			pipe.Set(ctx, "pair:"+tag, 1+random.IntN(100), kept)
			limits++
			if random.IntN(3) > 0 {
				pipe.Set(ctx, "pair:"+tag+":timer", 1, ttl())
			}
		case 1:
			pipe.HSet(ctx, "bucket:"+tag, "n", 1+random.IntN(100), "other", strings.Repeat("x", random.IntN(60)))
			pipe.Expire(ctx, "bucket:"+tag, kept)
			limits++
		case 2:
			pipe.Set(ctx, "double:"+tag, fmt.Sprintf("%d,%d", 1+random.IntN(9), 1+random.IntN(9)), kept)
			limits += 2
		case 3:
			limits++
			switch random.IntN(4) {
			case 0:
				pipe.RPush(ctx, "times:"+tag, "1", "2")
			case 1:
				pipe.SAdd(ctx, "times:"+tag, 7, 3)
			case 2:
				pipe.ZAdd(ctx, "times:"+tag, redis.Z{Score: 1, Member: "a"})
			case 3: // which is not read in one go, and compressed where it is dumped
				pipe.Set(ctx, "times:"+tag, strings.Repeat("ab", 3000+random.IntN(9000)), 0)
			}
			if random.IntN(2) == 0 {
				pipe.Expire(ctx, "times:"+tag, kept)
			}
		}
		if random.IntN(4) == 0 {
			pipe.Set(ctx, "else:"+tag, "somebody's", 0)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	return limits
}

// Keys of our own are not looked at as another limiter's, but keys that only look like ours are.
func TestOtherLimitersLeaveOutWhatIsOurs(t *testing.T) {
	server := redistest.Start(t)
	own := connected(t, server, redis.Options{})
	mustTake(t, own, user, hundred, 1)
	server.Do("SET", "rl:{somebody}:hits", 5)
	server.Do("HSET", "rl!{id}", "a", "b")
	backend := newStore(t, server.Client())
	sources := testLayouts()[:1]
	sources[0].Layout = &fixture{"rl", true, ofStrings}
	sources[0].Keys = mustPattern("rl*")
	entries, errs := scanned(t, backend.OtherLimiters(sources), admin.Query{})
	names := slices.Collect(maps.Keys(entries))
	if len(errs) > 0 || len(names) != 1 || names[0].Subject != "{somebody}:hits" {
		t.Errorf("found are %v, %v", names, errs)
	}
}

// A family of which one part has become something else stays whole. What has changed since, or gone, is told as it
// was, also what is kept for another time: a key that was blocked again would be free too early after an undo.
func TestALayoutDeletionChecks(t *testing.T) {
	server := redistest.Start(t)
	keys := othersAt(t, server)
	for _, name := range []string{"same", "used", "alien", "halved", "gone", "longer", "shorter", "for ever",
		"no more"} {
		server.Do("SET", "pair:"+name, 3, "EX", 1000)
		server.Do("SET", "pair:"+name+":timer", 7, "EX", 1000)
	}
	for _, name := range []string{"same", "used", "longer", "shorter", "for ever", "no more"} {
		server.Do("HSET", "bucket:"+name, "n", 3)
		server.Do("EXPIRE", "bucket:"+name, 1000)
	}
	server.Do("PERSIST", "pair:no more")
	server.Do("PERSIST", "bucket:no more")
	records := recordsOf(t, keys)
	server.Do("INCR", "pair:used")
	server.Do("HINCRBY", "bucket:used", "n", 1)
	server.Do("DEL", "pair:alien:timer", "pair:halved:timer", "pair:gone", "pair:gone:timer")
	server.Do("RPUSH", "pair:alien:timer", "a")
	for _, family := range []string{"pair:", "bucket:"} {
		server.Do("EXPIRE", family+"longer", 5000)
		server.Do("EXPIRE", family+"shorter", 500)
		server.Do("PERSIST", family+"for ever")
		server.Do("EXPIRE", family+"no more", 1000)
	}
	deleted, changed, err := keys.Delete(ctx, records...)
	var foreign *store.ForeignError
	if deleted != 13 || !errors.As(err, &foreign) || foreign.StoreKey != "pair:alien:timer" ||
		!strings.Contains(err.Error(), "holds a list") {
		t.Errorf("deleted %d, %v", deleted, err)
	}
	got := map[string]int{}
	for i := range changed {
		got[changed[i].Key.Name+":"+changed[i].Key.Subject] = len(changed[i].Members)
	}
	want := map[string]int{"pair:used": 2, "pair:halved": 1, "bucket:used": 1}
	for _, name := range []string{"longer", "shorter", "for ever", "no more"} {
		want["pair:"+name], want["bucket:"+name] = 2, 1
	}
	if !maps.Equal(got, want) {
		t.Errorf("changed are %v, want %v", got, want)
	}
	if left := server.Do("KEYS", "*"); len(left.([]any)) != 2 || server.Do("GET", "pair:alien") != "3" {
		t.Errorf("left are %v", left)
	}
	if outcomes, err := keys.Import(ctx, false, changed...); err != nil ||
		tally(outcomes)[admin.Imported] != len(want) {
		t.Errorf("importing came to %v, %v", tally(outcomes), err)
	}
	if server.Do("GET", "pair:used") != "4" || server.Do("HGET", "bucket:used", "n") != "4" ||
		server.Do("EXISTS", "pair:halved:timer") != int64(0) {
		t.Errorf("what was deleted has not come back as it was")
	}
	for _, family := range []string{"pair:", "bucket:"} {
		for name, want := range map[string]int64{"used": 1000, "longer": 5000, "shorter": 500, "for ever": -1,
			"no more": 1000} {
			if got := server.Do("TTL", family+name).(int64); got > want || got < want-100 {
				t.Errorf("%s%s is kept for %d s, want %d", family, name, got, want)
			}
		}
	}
}

// While 64 clients count on one limit it is deleted with a backup again and again. All that was
// counted is in what was deleted, as the backup has it or as it was told, and in what is left.
func TestNothingIsLostWhileALimitOfALayoutIsDeleted(t *testing.T) {
	tier.Full(t, "writers beside a deletion, for seconds")
	t.Parallel()
	server, aside := redistest.Start(t), redistest.Start(t)
	keys, asideKeys := othersAt(t, server), othersAt(t, aside)
	countIn := func(record admin.Record) (n int64) { // by bringing it back to a server of its own
		aside.Do("FLUSHALL")
		_, err := asideKeys.Import(ctx, false, record)
		must(t, err)
		fmt.Sscan(fmt.Sprint(aside.Do("GET", "pair:{x}")), &n)
		return n
	}
	var stop atomic.Bool
	var counted atomic.Int64
	var writing sync.WaitGroup
	for range 64 {
		client := server.Client()
		writing.Go(func() {
			for !stop.Load() {
				if _, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
					p.Incr(ctx, "pair:{x}")
					return p.Set(ctx, "pair:{x}:timer", 1, time.Hour).Err()
				}); err != nil {
					t.Error(err)
					return
				}
				counted.Add(1)
			}
		})
	}
	var deleted, late int64
	for rounds := 0; rounds < 60 && !t.Failed(); {
		records := recordsOf(t, keys)
		if len(records) == 0 {
			continue
		}
		rounds++
		gone, changed, err := keys.Delete(ctx, records...)
		if err != nil || gone > 1 || len(changed) > gone {
			t.Errorf("deleted %d, changed %v, %v", gone, changed, err)
		}
		if len(changed) > 0 {
			late++
			records = changed
		}
		if gone > 0 {
			deleted += countIn(records[0])
		}
	}
	stop.Store(true)
	writing.Wait()
	for _, record := range recordsOf(t, keys) {
		deleted += countIn(record)
	}
	if deleted != counted.Load() || late == 0 {
		t.Errorf("%d units were counted, and %d were deleted or are left (%d times told late)", counted.Load(), deleted,
			late)
	}
}

// Whatever families there are, each limit comes once. Deleting all leaves what is not a limit, and importing the
// records brings back every value and expiry. In a Cluster families lie in one slot or in several, and come and go
// whole all the same, also while slots move.
func TestFamiliesInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000") // the others go on
	client := clusterClient(t, cluster, redis.ClusterOptions{})
	keys := othersOn(t, clusterClient(t, cluster, redis.ClusterOptions{}))
	limits := plant(t, client, rand.New(rand.NewPCG(3, 4)), 500)
	before := keysIn(t, client, "*")
	others := maps.Clone(before)
	maps.DeleteFunc(others, func(key, _ string) bool { return !strings.HasPrefix(key, "else:") })
	var entries map[store.Key]admin.Entry
	var records []admin.Record
	scans := func() {
		t.Helper()
		found, errs := scanned(t, keys, admin.Query{Records: true, Bytes: true})
		if entries, records = found, nil; len(entries) != limits || len(errs) > 0 {
			t.Fatalf("%d limits are found of %d, and errors %v", len(entries), limits, errs)
		}
		for _, e := range entries {
			if records = append(records, e.Record); e.Bytes == 0 {
				t.Errorf("%v takes no memory", e.Key)
			}
		}
	}
	deletes := func() {
		t.Helper()
		if deleted, changed, err := keys.Delete(ctx, records...); deleted != limits || len(changed) > 0 || err != nil {
			t.Fatalf("deleted %d of %d, changed %v, %v", deleted, limits, changed, err)
		}
	}
	imports := func(replace bool, want admin.ImportOutcome) {
		t.Helper()
		if outcomes, err := keys.Import(ctx, replace, records...); err != nil || tally(outcomes)[want] != limits {
			t.Errorf("importing came to %v, %v", tally(outcomes), err)
		}
	}
	scans()
	imports(false, admin.AlreadyThere)
	deletes()
	if left := keysIn(t, client, "*"); !maps.Equal(left, others) {
		t.Errorf("%d keys are left, want %d", len(left), len(others))
	}
	imports(false, admin.Imported)
	imports(true, admin.AlreadyThere)
	if after := keysIn(t, client, "*"); !maps.Equal(after, before) {
		maps.DeleteFunc(after, func(key, value string) bool { return before[key] == value })
		t.Errorf("not all of %d keys are as they were: %.500q", len(before), after)
	}

	owner, slot := owner(t, cluster, "moving")
	for _, name := range []string{"pair:{moving}", "pair:{moving}:timer", "double:{moving}"} {
		must(t, client.Set(ctx, name, "5", time.Hour).Err())
	}
	client.HSet(ctx, "bucket:{moving}", "n", 5)
	limits += 3
	must(t, cluster.BeginMoveSlot(slot, (owner+1)%3, "pair:{moving}", "pair:{moving}:timer", "bucket:{moving}"))
	scans()
	pair := entries[store.Key{Subject: "{moving}", Name: "pair"}]
	if len(pair.Record.Members) != 2 || pair.Used != 5 {
		t.Errorf("a family that has moved is %+v", pair)
	}
	deletes()
	// Two keys that are nowhere cannot be written while their slot has two masters.
	outcomes, err := keys.Import(ctx, false, pair.Record)
	if !store.IsAway(err) || outcomes[0] == admin.Imported || client.Exists(ctx, "pair:{moving}").Val() != 0 {
		t.Errorf("while a slot moves: importing its family came to %v, %v", outcomes, err)
	}
	must(t, cluster.MoveSlot(slot, (owner+1)%3))
	imports(false, admin.Imported)

	away := cluster.Masters[owner]
	away.Kill()
	_, errs := scanned(t, keys, admin.Query{}) // the others lack parts of families, and are not away
	text := fmt.Sprint(errs)
	n, named := strings.Count(text, "cannot be reached"),
		strings.Count(text, "redis at "+away.Addr+" cannot be reached")
	if n < 2 || named != n {
		t.Errorf("the master at %s is away: %s", away.Addr, text)
	}
}
