package layouts

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// FuzzJudge lets all layouts judge whatever others may have written: under no mapping, and under one to any
// of them. Who claims a key has read it, claims only what was read, and its record can be restored.
func FuzzJudge(f *testing.F) {
	all := All()
	for i, layout := range all {
		for _, v := range vectors()[layout.Info().Name] {
			f.Add(uint8(i), v.storeKey, packValues(v.values), int64(v.now), v.limit.Count, int64(v.limit.Period), true)
		}
	}
	for i, alike := range corpus() {
		f.Add(uint8(i), alike.StoreKey, packValues([]Value{alike.Value}), int64(corpusNow), int64(10), int64(time.Minute), i%2 == 0)
	}
	everything := pattern(f, "*")
	f.Fuzz(func(t *testing.T, which uint8, storeKey string, packed []byte, now, count, period int64, maps bool) {
		limit := store.Limit{Count: max(0, count%1_000_000_000), Period: max(0, time.Duration(period)%(366*24*time.Hour))}
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
		storeKeys := look.StoreKeys(store.Instant(now & store.MaxInstant))
		values := unpackValues(packed, storeKeys)
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
