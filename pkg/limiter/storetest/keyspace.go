package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func exactly(t *testing.T, subject string) store.Pattern {
	t.Helper()
	pattern, err := store.ExactPattern(subject)
	if err != nil {
		t.Fatal(err)
	}
	return pattern
}

// fill takes a cost of each key, many in one call.
func fill(t *testing.T, backend store.Store, limit store.Limit, keys []store.Key, cost func(i int) int64) {
	t.Helper()
	var reqs []store.Request
	for i, key := range keys {
		reqs = append(reqs, store.Request{Key: key, Limit: limit, Cost: cost(i)})
	}
	for some := range slices.Chunk(reqs, store.MaxRequests) {
		decisions := make([]store.Decision, len(some))
		if err := backend.Decide(context.Background(), store.Take, some, decisions); err != nil ||
			!store.AllAllowed(decisions) {
			t.Fatalf("filling with %v: %+v, %v", some, decisions, err)
		}
	}
}

// keyspaceFindsAndDeletes scans and deletes among subjects with hostile names.
func keyspaceFindsAndDeletes(t *testing.T, h Harness, kind store.Kind) {
	// a file store waits less for a call without an end
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	backend := h.newKeys(t, func() time.Time { return epoch })
	limit := LimitOf(kind, 1000, time.Minute)
	subjects := []string{
		"*", "a[b]?", "a", "ab", "a:b", `back\slash`, "ip:2001:db8::1", "a^b", "[", "]", "-", "é", "日本", "a b", `"'`,
		"tenant:acme:user:1",
		"tenant:acme:user:2", "tenant:acmee:user:1",
		"ip:203.0.113.9", "ip:203.0.113.255", "ip:203.0.114.0", "ip:203.0.113.0/25", "ip:203.0.112.0/23",
		"ip:2001%3Adb8%3A1%3A%3A/64",
		"ip:2001:db9::1", "tenant:acme:ip:10.9.9.9",
	}
	for i := range 2500 { // more than one page of any scan
		subjects = append(subjects, fmt.Sprintf("many:%d", i))
	}
	var filled []store.Key
	for _, subject := range subjects {
		filled = append(filled, store.Key{Subject: subject, Name: "first"},
			store.Key{Subject: subject, Name: "second/with:colon"})
	}
	fill(t, backend, limit, filled, func(int) int64 { return 7 })
	scan := func(p store.Pattern) map[store.Key]int {
		found := map[store.Key]int{}
		for entry, err := range backend.Scan(ctx, admin.Query{Subjects: p}) {
			if err != nil {
				t.Fatal(err)
			}
			found[entry.Key]++
			recorded := entry.Limit
			recorded.Calendar = nil
			if recorded != inWindow(limit, epoch) || entry.Used != 7 || entry.Remaining != 993 || !entry.Allowed {
				t.Errorf("%s: found %+v, want 7 of 1000 used under %s", entry.Key, entry, limit)
			}
			if entry.StoreKey != h.storeKey(backend, entry.Key) {
				t.Errorf("%s: its store key is %q", entry.Key, entry.StoreKey)
			}
		}
		return found
	}
	wantKeys := func(what string, got map[store.Key]int, subjects ...string) {
		t.Helper()
		want := map[store.Key]int{}
		for _, subject := range subjects {
			want[store.Key{Subject: subject, Name: "first"}] = 1
			want[store.Key{Subject: subject, Name: "second/with:colon"}] = 1
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: found %d keys, want %d (each once)", what, len(got), len(want))
		}
	}
	for _, subject := range subjects[:20] {
		wantKeys(subject, scan(exactly(t, subject)), subject)
	}
	for pattern, want := range map[string][]string{
		"*":             subjects,
		"tenant:acme:*": {"tenant:acme:user:1", "tenant:acme:user:2", "tenant:acme:ip:10.9.9.9"},
		"?":             {"*", "a", "[", "]", "-", "é"},
		`\*`:            {"*"},
		`a\[b]\?`:       {"a[b]?"},
		"a[^b]b":        {"a:b", "a^b", "a b"},
		"[日x]?":         {"日本"},
		"nothing*":      nil,
		// Networks, selected by the addresses and networks at the end of subjects.
		"ip:203.0.113.0/24":  {"ip:203.0.113.9", "ip:203.0.113.255", "ip:203.0.113.0/25"},
		"ip:2001:db8::/32":   {"ip:2001:db8::1", "ip:2001%3Adb8%3A1%3A%3A/64"},
		"*:ip:10.0.0.0/8":    {"tenant:acme:ip:10.9.9.9"},
		"ip:203.0.113.9/32":  {"ip:203.0.113.9"},
		"ip:198.51.100.0/24": nil,
	} {
		parsed, err := store.ParsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		wantKeys(pattern, scan(parsed), want...)
	}

	for _, subject := range []string{"*", "a[b]?"} {
		keys := slices.Collect(maps.Keys(scan(exactly(t, subject))))
		if deleted, _, err := backend.Delete(ctx, admin.Records(keys...)...); deleted != 2 || err != nil {
			t.Errorf("deleting %v: %d, %v", keys, deleted, err)
		}
		if deleted, _, err := backend.Delete(ctx, admin.Records(keys...)...); deleted != 0 || err != nil {
			t.Errorf("deleting %v again: %d, %v", keys, deleted, err)
		}
		subjects = slices.DeleteFunc(subjects, func(s string) bool { return s == subject })
	}
	everything, _ := store.ParsePattern("*")
	wantKeys("all that was not deleted", scan(everything), subjects...)
	all := slices.Collect(maps.Keys(scan(everything)))
	if deleted, _, err := backend.Delete(ctx, admin.Records(all...)...); deleted != len(all) || err != nil {
		t.Errorf("deleting all: %d of %d, %v", deleted, len(all), err)
	}
	wantKeys("after deleting all", scan(everything))
}

// keyspaceReachesKeysDirectly reads keys by their names, and selects by name and by a function.
func keyspaceReachesKeysDirectly(t *testing.T, h Harness, kind store.Kind) {
	ctx := context.Background()
	backend := h.newKeys(t, func() time.Time { return epoch })
	limit := LimitOf(kind, 10, time.Minute)
	var keys []store.Key
	for i := range 1200 {
		key := store.Key{Subject: fmt.Sprintf("user:%d", i), Name: "api/user"}
		if i%3 == 0 {
			key.Name = "login/*"
		}
		keys = append(keys, key)
	}
	fill(t, backend, limit, keys, func(int) int64 { return 1 })
	find := func(q admin.Query) []store.Key {
		t.Helper()
		var found []store.Key
		looked, total := int64(-1), int64(-1)
		q.Progress = func(l, t int64) { looked, total = l, t }
		q.Bytes = true
		for entry, err := range backend.Scan(ctx, q) {
			if err != nil {
				t.Fatal(err)
			}
			if entry.Bytes < 20 || entry.Bytes > 1000 {
				t.Errorf("%s takes %d bytes", entry.Key, entry.Bytes)
			}
			found = append(found, entry.Key)
		}
		if looked < int64(len(found)) || looked != total {
			t.Errorf("%d keys found, and the progress at the end is %d of %d", len(found), looked, total)
		}
		return found
	}
	absent := store.Key{Subject: "user:1", Name: "login/*"}
	if found := find(admin.Query{Keys: append(slices.Clone(keys[100:900]), absent)}); len(found) != 800 {
		t.Errorf("found %d of 800 keys by name", len(found))
	}
	everything, _ := store.ParsePattern("*")
	login, _ := store.ExactPattern("login/*")
	if found := find(admin.Query{Subjects: everything, Names: login}); len(found) != 400 || found[0].Name != "login/*" {
		t.Errorf("found %d keys of that name, want 400", len(found))
	}
	only := func(key store.Key) bool { return key == keys[7] }
	if found := find(admin.Query{Subjects: everything, Match: only}); len(found) != 1 || found[0] != keys[7] {
		t.Errorf("selecting one key by a function: found %v", found)
	}
	if found := find(admin.Query{Subjects: exactly(t, "user:7"), Names: login}); len(found) != 0 {
		t.Errorf("found %v, a key of another name", found)
	}
}

// keyspaceBringsRecordsBack scans, deletes and imports.
func keyspaceBringsRecordsBack(t *testing.T, h Harness, kind store.Kind) {
	ctx := context.Background()
	now := epoch
	backend := h.newKeys(t, func() time.Time { return now })
	limit := LimitOf(kind, 1_000_000, 24*time.Hour)
	lim := storecall.New(backend)
	var keys []store.Key
	for i := range 700 {
		keys = append(keys, store.Key{Subject: fmt.Sprintf("user:%d", i), Name: "limit"})
	}
	fill(t, backend, limit, keys, func(i int) int64 { return int64(10_000 + i) })
	for range 100 { // a log too large for one read
		now = now.Add(time.Second)
		if _, err := lim.Take(ctx, keys[0], limit, 1); err != nil {
			t.Fatal(err)
		}
	}
	before := h.dump(t, backend)
	var records []admin.Record
	for entry, err := range backend.Scan(ctx, admin.Query{Keys: append(slices.Clone(keys),
		store.Key{Subject: "nobody", Name: "limit"}), Records: true}) {
		if err != nil || entry.Record.Key != entry.Key {
			t.Fatalf("the record of %s is %v (%v)", entry.Key, entry.Record, err)
		}
		if d, err := lim.Peek(ctx, entry.Key, limit, 1); len(records)%100 == 0 && (err != nil || d != entry.Decision) {
			t.Errorf("the scan finds %+v, and a peek %+v, %v", entry.Decision, d, err)
		}
		records = append(records, entry.Record)
	}
	if len(records) != len(keys) || h.dump(t, backend) != before {
		t.Fatalf("found %d of %d records", len(records), len(keys))
	}
	if outcomes, err := backend.Import(ctx, false, records...); err != nil ||
		count(outcomes, admin.AlreadyThere) != len(keys) ||
		h.dump(t, backend) != before {
		t.Errorf("importing what is there: %v, %d are already there", err, count(outcomes, admin.AlreadyThere))
	}

	// A key that was used since the scan is deleted, and its value is returned.
	if _, err := lim.Take(ctx, keys[5], limit, 1000); err != nil {
		t.Fatal(err)
	}
	late := h.dump(t, backend)
	deleted, changed, err := backend.Delete(ctx, records...)
	if err != nil || deleted != len(keys) || len(changed) != 1 || changed[0].Key != keys[5] ||
		h.Dump != nil && h.dump(t, backend) == late {
		t.Fatalf("deleted %d of %d, %d changed (%v)", deleted, len(keys), len(changed), err)
	}
	for i := range records {
		if records[i].Key == keys[5] {
			records[i] = changed[0]
		}
	}
	outcomes, err := backend.Import(ctx, false, records...)
	if err != nil || count(outcomes, admin.Imported) != len(keys) {
		t.Fatalf("imported %d of %d, %v", count(outcomes, admin.Imported), len(keys), err)
	}
	if after := h.dump(t, backend); after != late {
		t.Errorf("scanned, deleted and imported, the store differs:\n%.300s\n%.300s", late, after)
	}

	// A key that was used since is overwritten only with replace.
	if _, err := lim.Take(ctx, keys[9], limit, 5000); err != nil {
		t.Fatal(err)
	}
	if outcomes, err := backend.Import(ctx, false, records...); err != nil || count(outcomes, admin.InUse) != 1 ||
		count(outcomes, admin.AlreadyThere) != len(keys)-1 ||
		outcomes[slices.IndexFunc(records, func(r admin.Record) bool { return r.Key == keys[9] })] != admin.InUse {
		t.Errorf("importing over a key used since: %v, %d left alone", err, count(outcomes, admin.InUse))
	}
	if outcomes, err := backend.Import(ctx, true, records...); err != nil || count(outcomes, admin.Imported) != 1 ||
		count(outcomes, admin.AlreadyThere) != len(keys)-1 || h.dump(t, backend) != late {
		t.Errorf("replacing: %v, %d imported, %d already there", err, count(outcomes, admin.Imported),
			count(outcomes, admin.AlreadyThere))
	}
	bad := admin.Record{Key: keys[0], Value: []byte("RL nonsense")}
	if _, err := backend.Import(ctx, true, bad); !errors.Is(err, store.ErrInvalid) || h.dump(t, backend) != late {
		t.Errorf("importing nonsense: %v", err)
	}
}

func count(outcomes []admin.ImportOutcome, of admin.ImportOutcome) (n int) {
	for _, outcome := range outcomes {
		if outcome == of {
			n++
		}
	}
	return n
}
