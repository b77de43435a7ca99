package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

func exactly(t *testing.T, subject string) limiter.Pattern {
	t.Helper()
	pattern, err := limiter.ExactPattern(subject)
	if err != nil {
		t.Fatal(err)
	}
	return pattern
}

// keyspaceFindsAndDeletes scans and deletes among subjects with hostile names.
func keyspaceFindsAndDeletes(t *testing.T, h Harness, algorithm limiter.Algorithm) {
	ctx := context.Background()
	store := h.New(t, func() time.Time { return epoch })
	limit := limiter.Limit{Algorithm: algorithm, Count: 1000, Period: time.Minute}
	subjects := []string{
		"*", "a[b]?", "a", "ab", "a:b", `back\slash`, "ip:2001:db8::1", "a^b", "[", "]", "-", "é", "日本", "a b", `"'`, "tenant:acme:user:1",
		"tenant:acme:user:2", "tenant:acmee:user:1",
	}
	for i := range 2500 { // more than one page of any scan
		subjects = append(subjects, fmt.Sprintf("many:%d", i))
	}
	for _, subject := range subjects {
		for _, name := range []string{"first", "second/with:colon"} {
			if _, err := limiter.New(store).Take(ctx, limiter.Key{Subject: subject, Name: name}, limit, 7); err != nil {
				t.Fatal(err)
			}
		}
	}
	scan := func(p limiter.Pattern) map[limiter.Key]int {
		found := map[limiter.Key]int{}
		for entry, err := range store.Scan(ctx, p) {
			if err != nil {
				t.Fatal(err)
			}
			found[entry.Key]++
			normalized, _ := limit.Normalize()
			if entry.Limit != normalized || entry.Decision.Used != 7 || entry.Decision.Remaining != 993 || !entry.Decision.Allowed {
				t.Errorf("%s: found %+v, want 7 of 1000 used under %s", entry.Key, entry, limit)
			}
			if entry.StoreKey != limiter.StoreKey(limiter.DefaultPrefix, entry.Key) {
				t.Errorf("%s: its store key is %q", entry.Key, entry.StoreKey)
			}
		}
		return found
	}
	wantKeys := func(what string, got map[limiter.Key]int, subjects ...string) {
		t.Helper()
		want := map[limiter.Key]int{}
		for _, subject := range subjects {
			want[limiter.Key{Subject: subject, Name: "first"}] = 1
			want[limiter.Key{Subject: subject, Name: "second/with:colon"}] = 1
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
		"tenant:acme:*": {"tenant:acme:user:1", "tenant:acme:user:2"},
		"?":             {"*", "a", "[", "]", "-", "é"},
		`\*`:            {"*"},
		`a\[b]\?`:       {"a[b]?"},
		"a[^b]b":        {"a:b", "a^b", "a b"},
		"[日x]?":         {"日本"},
		"nothing*":      nil,
	} {
		parsed, err := limiter.ParsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		wantKeys(pattern, scan(parsed), want...)
	}

	for _, subject := range []string{"*", "a[b]?"} {
		keys := slices.Collect(maps.Keys(scan(exactly(t, subject))))
		if deleted, err := store.Delete(ctx, keys...); deleted != 2 || err != nil {
			t.Errorf("deleting %v: %d, %v", keys, deleted, err)
		}
		if deleted, err := store.Delete(ctx, keys...); deleted != 0 || err != nil {
			t.Errorf("deleting %v again: %d, %v", keys, deleted, err)
		}
		subjects = slices.DeleteFunc(subjects, func(s string) bool { return s == subject })
	}
	everything, _ := limiter.ParsePattern("*")
	wantKeys("all that was not deleted", scan(everything), subjects...)
	all := slices.Collect(maps.Keys(scan(everything)))
	if deleted, err := store.Delete(ctx, all...); deleted != len(all) || err != nil {
		t.Errorf("deleting all: %d of %d, %v", deleted, len(all), err)
	}
	wantKeys("after deleting all", scan(everything))
}
