package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// keyspaceAdjusts adjusts hundreds of keys at once, of this kind and of another, and checks that each is as if it
// had been adjusted alone.
func keyspaceAdjusts(t *testing.T, h Harness, kind store.Kind) {
	ctx := context.Background()
	backend := h.newKeys(t, func() time.Time { return epoch })
	lim := storecall.New(backend)
	limit, other := LimitOf(kind, 1000, time.Hour), store.Limit{Algorithm: store.FixedWindow, Count: 500, Period: time.Hour}
	var adjustments []admin.Adjustment
	for i := range 700 {
		a := admin.Adjustment{Key: store.Key{Subject: fmt.Sprintf("user:%d", i), Name: "limit"},
			Limit: limit, Used: 300, OnlyLess: i%3 == 0}
		if i%7 == 0 {
			a.Limit = other
		}
		if used := int64(i % 5 * 100); used > 0 { // fewer than 300, exactly 300, and more
			if _, err := lim.Take(ctx, a.Key, a.Limit, used); err != nil {
				t.Fatal(err)
			}
		}
		adjustments = append(adjustments, a)
	}
	keys := make([]store.Key, len(adjustments))
	for i := range adjustments {
		keys[i] = adjustments[i].Key
	}
	kept := map[store.Key][]byte{}
	for entry, err := range backend.Scan(ctx, admin.Query{Keys: keys, Records: true}) {
		if err != nil {
			t.Fatal(err)
		}
		kept[entry.Key] = entry.Record.Value
	}
	for i := range adjustments {
		adjustments[i].Kept = append([]byte{}, kept[keys[i]]...) // empty where nothing was in use
	}
	for _, i := range []int{14, 20} { // used since they were kept; they were 400 and 0
		if _, err := lim.Take(ctx, keys[i], adjustments[i].Limit, 1); err != nil {
			t.Fatal(err)
		}
	}
	results, err := backend.Adjust(ctx, adjustments...)
	if err != nil || len(results) != len(adjustments) {
		t.Fatalf("adjusted %d of %d: %v", len(results), len(adjustments), err)
	}
	for i, r := range results {
		before := int64(i % 5 * 100)
		late := i == 14 || i == 20
		if late {
			before++
		}
		after := int64(300)
		if before < after && i%3 == 0 {
			after = before
		}
		if !r.Done || r.Before != before || r.After != after || (r.Record.Value != nil) != late {
			t.Errorf("%s with %d used, of which %d are to be left: %+v", keys[i], before, after, r)
		}
		if d, err := lim.Peek(ctx, keys[i], adjustments[i].Limit, 1); err != nil || d.Used != after {
			t.Errorf("%s: %+v is used now, want %d (%v)", keys[i], d, after, err)
		}
	}
	for _, i := range []int{14, 20} {
		if record := results[i].Record; record.Check() != nil || record.Key != keys[i] || !record.Expires.After(epoch) {
			t.Errorf("what was used since it was kept is %+v", record)
		}
	}

	// Repeated adjustments change nothing, and wrong ones change nothing.
	before := h.dump(t, backend)
	again, err := backend.Adjust(ctx, adjustments...)
	if err != nil || h.dump(t, backend) != before {
		t.Errorf("adjusting again: %v", err)
	}
	for i, r := range again {
		if !r.Done || r.Before != r.After || r.Record.Value != nil {
			t.Errorf("%s a second time: %+v", keys[i], r)
		}
	}
	for _, used := range []int64{-1, 1001} {
		bad := adjustments[1]
		bad.Used = used
		if _, err := backend.Adjust(ctx, adjustments[3], bad); !errors.Is(err, store.ErrInvalid) || h.dump(t, backend) != before {
			t.Errorf("adjusting to %d used: %v", used, err)
		}
	}

	// Foreign values stay, and do not prevent the adjustment of other keys.
	if h.Plant == nil {
		return
	}
	adjustments[3].Key = store.Key{Subject: "user:2", Name: "planted"}
	intact := h.Plant(t, backend, adjustments[3].Key, "not a record")
	adjustments[2].Used, adjustments[3].Used = 0, 0
	results, err = backend.Adjust(ctx, adjustments[2:5]...)
	var foreign *store.ForeignError
	if !errors.As(err, &foreign) || foreign.StoreKey != h.storeKey(backend, adjustments[3].Key) || !intact() {
		t.Fatalf("adjusting what is not a record: %v", err)
	}
	if !results[0].Done || results[0].After != 0 || results[1].Done || !results[2].Done {
		t.Errorf("next to what is not a record: %+v", results)
	}
}
