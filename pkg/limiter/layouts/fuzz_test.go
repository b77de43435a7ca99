package layouts

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// unpackValues are values that a fuzzer has changed, as far as a store can hold them, for some store keys.
func unpackValues(packed []byte, storeKeys []string) (values []Value, ok bool) {
	if json.Unmarshal(packed, &values) != nil {
		return nil, false
	}
	for len(values) < len(storeKeys) {
		values = append(values, Value{Type: NoValue, TTL: -2})
	}
	for i, storeKey := range storeKeys {
		v := &values[i]
		if v.StoreKey = storeKey; v.Type == SortedSetValue { // as every server has it
			slices.SortFunc(v.Members, func(a, b Member) int { return cmp.Compare(a.Score, b.Score) })
		}
	}
	return values, true
}

// FuzzJudge lets all layouts judge whatever others may have written: under no mapping, and under one to any of them.
// Who claims a key has read it, claims only what was read, and its record can be restored.
func FuzzJudge(f *testing.F) {
	all := All()
	for i, layout := range all {
		for _, v := range vectors()[layout.Info().Name] {
			f.Add(uint8(i), v.storeKey, must(json.Marshal(v.values)), int64(v.now), v.limit.Count,
				int64(v.limit.Period), true)
		}
	}
	for i, alike := range corpus() {
		f.Add(uint8(i), alike.StoreKey, must(json.Marshal([]Value{alike.Value})), int64(corpusNow), int64(10),
			int64(time.Minute), i%2 == 0)
	}
	everything := pattern(f, "*")
	f.Fuzz(func(t *testing.T, which uint8, storeKey string, packed []byte, now, count, period int64, maps bool) {
		limit := store.Limit{Count: max(0, count%1_000_000_000),
			Period: max(0, time.Duration(period)%(366*24*time.Hour))}
		sources := autoSources()
		mapped := all[int(which)%len(all)]
		if len(storeKey) > 1000 { // than any pattern
			return
		}
		if maps && storeKey != "" {
			sources = append(Sources{{Layout: mapped, Keys: exactly(t, storeKey), Limit: limit}}, sources...)
		}
		look := sources.Look(storeKey, &admin.Query{Subjects: everything})
		if look == nil {
			return
		}
		at := store.Instant(now & store.MaxInstant)
		if _, ok := mapped.Match(storeKey, true); ok {
			checkTogether(t, mapped, storeKey, true, limit, at)
		}
		storeKeys := look.StoreKeys(at)
		values, ok := unpackValues(packed, storeKeys)
		if !ok {
			return
		}
		entries, principal, err := look.Judge(func(of string) Value { return values[slices.Index(storeKeys, of)] })
		if err != nil && (len(entries) > 0 || errors.Is(err, store.ErrForeign) || err.Error() == "") {
			t.Fatalf("nobody asked for it, and it is %+v, %v", entries, err)
		}
		for i := range entries {
			e := &entries[i]
			layout, err := Named(e.Layout)
			if err != nil || !slices.Contains(storeKeys, principal) {
				t.Fatalf("%+v of %q: %v", e, principal, err)
			}
			checkReading(t, layout, e, storeKeys)
			if err := CheckRecord(&e.Record, exactly(t, e.StoreKey)); err != nil && len(e.Record.Members) > 0 {
				t.Fatalf("it cannot be restored: %v", err)
			}
		}
	})
}

// checkTogether returns the store keys that belong together, which have to be the same for each. Others that are not
// of the layout may be read with them.
func checkTogether(t *testing.T, layout Layout, storeKey string, asked bool, limit store.Limit,
	now store.Instant) []string {
	together := layout.Together(storeKey, limit, now)
	if !slices.Contains(together, storeKey) || len(together) > 8 {
		t.Fatalf("%q belongs to %q", storeKey, together)
	}
	for _, other := range together {
		if _, isOne := layout.Match(other, asked); !isOne {
			continue
		}
		if again := layout.Together(other, limit, now); !slices.Equal(sortedKeys(again), sortedKeys(together)) ||
			again[0] != together[0] {
			t.Fatalf("%q belongs to %q, and %q of these to %q", storeKey, together, other, again)
		}
	}
	return together
}

func sortedKeys(keys []string) []string {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return keys
}

// checkReading checks that an entry says nothing that cannot be.
func checkReading(t *testing.T, layout Layout, e *admin.Entry, together []string) {
	switch {
	case e.Remaining < 0 || e.RetryAfter < 0 || e.ResetAfter < 0 || e.Delay < 0:
		t.Fatalf("of %s something is negative: %+v", layout.Info().Name, e)
	case e.Limit.Count < 0 || e.Limit.Period < 0 || e.Limit.Burst < 0 || e.Limit.Capacity() < 0:
		t.Fatalf("the limit cannot be: %+v", e.Limit)
	case e.Allowed && e.RetryAfter > 0:
		t.Fatalf("allowed only later: %+v", e)
	case e.Key != (store.Key{}) && LayoutOf(e.Key) != layout.Info().Name:
		t.Fatalf("the name of %+v does not begin with the layout's", e.Key)
	case e.StoreKey != "" && !slices.Contains(together, e.StoreKey):
		t.Fatalf("the entry is of %q, which is not one of %q", e.StoreKey, together)
	}
	for _, part := range e.Record.Members {
		if !slices.Contains(together, part.StoreKey) {
			t.Fatalf("a part is %q, which is not one of %q", part.StoreKey, together)
		}
	}
	_ = e.LimitText()
	if share, known := e.Share(); known && (math.IsNaN(share) || math.IsInf(share, 0)) {
		t.Fatalf("the share is %v: %+v", share, e)
	}
}
