package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sent is how many bytes a server has sent.
func sent(server *redistest.Server) int64 {
	_, rest, _ := strings.Cut(fmt.Sprint(server.Do("INFO", "stats")), "total_net_output_bytes:")
	digits, _, _ := strings.Cut(rest, "\r")
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

// Values that no limiter has are not fetched, whatever their type. Each is told in one line, and
// the others come as ever. Long lists and sorted sets are read as far as is needed.
func TestLargeValuesOfLayoutsAreNotFetched(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	server := redistest.Start(t)
	keys := othersAt(t, server)
	server.Do("SETRANGE", "times:string", 100_000_000, "x")
	const many = 100_000
	pipe := server.Client().Pipeline()
	for i := 0; i < many; i += 1000 {
		var fields, items, members []any
		var scores []redis.Z
		for j := i; j < i+1000; j++ {
			fields = append(fields, fmt.Sprint("field", j), strings.Repeat("x", 40))
			items = append(items, j)
			members = append(members, fmt.Sprintf("%200d", j))
			scores = append(scores, redis.Z{Score: float64(j), Member: fmt.Sprintf("%200d", j)})
		}
		pipe.HSet(ctx, "times:hash", fields...)
		pipe.ZAdd(ctx, "times:zset", scores...)
		pipe.RPush(ctx, "times:list", items...)
		pipe.SAdd(ctx, "times:set", members...)
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
	}
	server.Do("EVAL", "for i = 1, 9 do redis.call('HSET', 'times:wide', i, string.rep('x', 9000000)) end", 0)
	server.Do("SET", "times:middle", strings.Repeat("x", 100_000))
	server.Do("SET", "pair:fine", 5)
	for _, records := range []bool{false, true} {
		had := sent(server)
		entries, errs := scanned(t, keys, admin.Query{Records: records, Bytes: true})
		if bytes := sent(server) - had; bytes > 24<<20 || !records && bytes > 3<<20 {
			t.Errorf("records %v: the server has sent %d bytes", records, bytes)
		}
		want := map[string]string{
			"times:string": "100000001 bytes, and limitctl takes at most 131072",
			"times:hash":   "bytes of memory, and limitctl takes at most 4194304",
			"times:wide":   "bytes of memory, and limitctl takes at most 4194304",
		}
		if records {
			want["times:zset"], want["times:list"], want["times:set"] = "into a backup", "", "into a backup"
			delete(want, "times:list")
		}
		for _, err := range errs {
			var of *store.ForeignError
			if !errors.As(err, &of) || want[of.StoreKey] == "" || !strings.Contains(of.Holds, want[of.StoreKey]) {
				t.Errorf("records %v: %v", records, err)
				continue
			}
			delete(want, of.StoreKey)
		}
		if len(want) > 0 {
			t.Errorf("records %v: nothing is said of %v", records, want)
		}
		for subject, members := range map[string]int64{"zset": 10_000, "list": 10_000, "set": 0} {
			e, has := entries[store.Key{Subject: subject, Name: "times"}]
			if has != (!records || subject == "list") || has && (e.Used < many || e.Remaining != members) {
				t.Errorf("records %v: of the %s came %v, %+v", records, subject, has, e.Decision)
			}
		}
		if e := entries[store.Key{Subject: "fine", Name: "pair"}]; e.Used != 5 {
			t.Errorf("records %v: what is beside came as %+v", records, e)
		}
		if e := entries[store.Key{Subject: "middle", Name: "times"}]; e.Used != 100_000 {
			t.Errorf("records %v: a long string came as %+v", records, e.Decision)
		}
	}
}

// A value may grow between the scan and its deletion beyond what an answer can have. It stays.
func TestAValueOfALayoutThatGrewIsNotDeletedUnseen(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	server := redistest.Start(t)
	keys := othersAt(t, server)
	for _, name := range []string{"a", "b", "c"} {
		server.Do("SET", "pair:"+name, 1)
	}
	records := recordsOf(t, keys)
	server.Do("SETRANGE", "pair:a", 3_000_000, "x")
	server.Do("SETRANGE", "pair:b", 3_000_000, "x")
	server.Do("SETRANGE", "pair:c", 30_000_000, "x")
	deleted, changed, err := keys.Delete(ctx, records...)
	if deleted != 2 || len(changed) != 2 || err == nil || !strings.Contains(err.Error(),
		`"pair:c" holds by now more than a backup takes`) ||
		server.Do("STRLEN", "pair:c") != int64(30_000_001) {
		t.Errorf("deleted %d, changed %d, %v", deleted, len(changed), err)
	}
	if _, err := keys.Import(ctx, false, changed...); err != nil || server.Do("STRLEN", "pair:a") != int64(3_000_001) {
		t.Errorf("it did not come back: %v", err)
	}
}

// What a newer server has dumped is refused in one line, and of a family nothing comes back then.
// So it is if the backup is damaged, or there is no memory.
func TestALayoutImportIsRefusedWhole(t *testing.T) {
	server := redistest.Start(t)
	keys := othersAt(t, server)
	server.Do("SET", "pair:a", 1)
	server.Do("SET", "pair:a:timer", 1)
	server.Do("ZADD", "times:z", 1, "a")
	pairs := recordsOf(t, keys)
	server.Do("FLUSHALL")
	var pair, zset admin.Record
	for _, r := range pairs {
		if r.Key.Name == "pair" {
			pair = r
		} else {
			zset = r
		}
	}
	// a string, then a sorted set
	family := admin.Record{Key: pair.Key, Members: append(pair.Members[:1:1], zset.Members...)}
	dumped := func(dump []byte) admin.Record {
		r := family
		r.Members = slices.Clone(family.Members)
		r.Members[1].Dump = dump
		return r
	}
	newer, damaged := dumped(redisstore.NewerDump(zset.Members[0].Dump)),
		dumped(append([]byte("x"), zset.Members[0].Dump...))
	for _, holds := range []any{nil, "0"} {
		if holds != nil {
			server.Do("SET", "pair:a", holds, "EX", 500)
		}
		outcomes, err := keys.Import(ctx, true, newer)
		if !errors.Is(err, store.ErrRefused) ||
			!strings.Contains(err.Error(), `key "times:z" was dumped by a newer server`) ||
			outcomes[0] == admin.Imported {
			t.Errorf("it came to %v, %v", outcomes, err)
		}
		if got := server.Do("GET", "pair:a"); got != holds || holds != nil && server.Do("TTL", "pair:a").(int64) < 490 {
			t.Errorf("half a family has come back: %v", got)
		}
	}
	if _, err := keys.Import(ctx, true, damaged); !errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(err.Error(), "is damaged in the backup") {
		t.Errorf("a damaged dump: %v", err)
	}
	text := pair.Members[0].Dump
	for _, edited := range []admin.Member{{StoreKey: "rl!id", Type: "string", Dump: text},
		{StoreKey: "rl!{audit}", Type: "string", Dump: text}, {StoreKey: "times:z", Type: "zset", Dump: text},
		{StoreKey: "times:z", Type: "record", Dump: zset.Members[0].Dump},
		{StoreKey: "times:z", Type: "+zset", Dump: zset.Members[0].Dump}} {
		some := admin.Record{Key: pair.Key, Members: []admin.Member{pair.Members[0], edited}}
		if _, err := keys.Import(ctx, true, some); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a backup that was edited to name %q: %v", edited.StoreKey, err)
		}
	}
	edited := admin.Record{Key: pair.Key, Members: []admin.Member{
		{StoreKey: "rl!id", Type: "string", Dump: pair.Members[0].Dump}}}
	outcomes, err := keys.Import(ctx, true, zset, pair, edited)
	if !errors.Is(err, store.ErrInvalid) || slices.Contains(outcomes, admin.Imported) ||
		server.Do("EXISTS", "rl!id", "pair:a:timer", "times:z") != int64(0) {
		t.Errorf("with what cannot be restored it came to %v, %v", outcomes, err)
	}
	if _, err := keys.Import(ctx, true, zset, pair); err != nil {
		t.Error(err)
	}
	server.Do("DEL", "times:z")
	server.Do("CONFIG", "SET", "maxmemory", "1")
	if _, err := keys.Import(ctx, true, family); !errors.Is(err, store.ErrRefused) ||
		!strings.Contains(err.Error(), "memory") {
		t.Errorf("without memory: %v", err)
	}
	if deleted, _, err := keys.Delete(ctx, pair); deleted != 1 || err != nil { // which helps
		t.Errorf("without memory: deleted %d, %v", deleted, err)
	}
	server.Do("CONFIG", "SET", "maxmemory", "0")
	if outcomes, err := keys.Import(ctx, false, family); err != nil || outcomes[0] != admin.Imported {
		t.Errorf("it came to %v, %v", outcomes, err)
	}
}
