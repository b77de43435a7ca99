package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Entries is an [admin.Keyspace] whose scans find exactly these entries, valid or not, for tests of code that reads
// entries.
type Entries struct {
	admin.Keyspace // an empty one
	List           []admin.Entry
}

// Scan implements [admin.Keyspace].
func (s Entries) Scan(_ context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		for _, e := range s.List {
			if q.Has(e.Key) && !yield(e, nil) {
				return
			}
		}
		q.Report(int64(len(s.List)), int64(len(s.List)))
	}
}

// NotAllKnown returns entries of a limit. Less is known of each than of the one before: everything, all but the
// period, all but the count, only the usage, and only that the key exists.
func NotAllKnown() Entries {
	const storeKeys = "counter:"
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}
	entry := func(subject string, limit store.Limit, d store.Decision) admin.Entry {
		return admin.Entry{Key: store.Key{Subject: subject, Name: "hits"}, StoreKey: storeKeys + subject, Limit: limit,
			Decision: d, TTL: time.Minute / 2}
	}
	noPeriod, noCount := limit, limit
	noPeriod.Period = 0
	noCount.Count, noCount.Burst = 0, 0
	silent := entry("silent", store.Limit{}, store.Decision{})
	silent.UsedUnknown, silent.TTL = true, -time.Millisecond
	return Entries{memorystore.New(), []admin.Entry{
		entry("whole", limit, store.Decision{Used: 10, RetryAfter: time.Minute / 2, ResetAfter: time.Minute / 2}),
		entry("no-period", noPeriod, store.Decision{Allowed: true, Used: 9, Remaining: 1, ResetAfter: time.Minute / 2}),
		entry("no-count", noCount, store.Decision{Used: 8, ResetAfter: time.Minute / 2}),
		entry("used-only", store.Limit{}, store.Decision{Used: 7, ResetAfter: time.Minute / 2}),
		silent,
	}}
}

func foreignDataIsNotTouched(t *testing.T, h Harness, kind store.Kind) {
	if h.Plant == nil {
		return // no other process can write to it
	}
	ctx := context.Background()
	backend := h.New(t, nil)
	limit := LimitOf(kind, 10, time.Minute)
	// A record of limitctl, to be damaged.
	own := store.State{}
	normalized, _ := limit.Normalize()
	own.Charge(normalized, 3, store.InstantOf(epoch))
	record := string(own.AppendRecord(nil))
	for name, value := range map[string]string{
		"text":        "hello",
		"empty":       "",
		"short":       record[:len(record)-1],
		"long":        record + "x",
		"version":     record[:2] + "\x09" + record[3:],
		"algorithm":   record[:3] + "\x09" + record[4:],
		"zero-count":  record[:4] + "\x00\x00\x00\x00" + record[8:],
		"huge-count":  record[:4] + "\xff\xff\xff\xff" + record[8:],
		"zero-burst":  record[:8] + "\x00\x00\x00\x00" + record[12:], // or slices
		"zero-period": record[:12] + "\x00\x00\x00\x00\x00\x00\x00" + record[19:],
		"huge-period": record[:12] + "\xff\xff\xff\xff\xff\xff\xff" + record[19:],
		"far-future":  record[:19] + "\x40\x00\x00\x00\x00\x00\x00" + record[26:],
		"huge-usage":  record[:26] + "\xff\xff\xff\xff" + record[30:],
	} {
		key := store.Key{Subject: "foreign", Name: name}
		intact := h.Plant(t, backend, key, value)
		for _, op := range []store.Op{store.Take, store.Peek, store.Refund} {
			good := store.Request{Key: store.Key{Subject: "foreign", Name: "good"}, Limit: limit, Cost: 1}
			foreign := store.Request{Key: key, Limit: limit, Cost: 1}
			err := backend.Decide(ctx, op, []store.Request{good, foreign}, make([]store.Decision, 2))
			var named *store.ForeignError
			if !errors.As(err, &named) || !errors.Is(err, store.ErrForeign) {
				t.Errorf("%s of a key holding %s: got error %v, want a ForeignError", op, name, err)
			} else if want := h.storeKey(backend, key); named.StoreKey != want {
				t.Errorf("%s of a key holding %s: the error names %q, want %q", op, name, named.StoreKey, want)
			}
		}
		if keys, has := admin.KeyspaceOf(backend); has && (name == "text" || name == "empty") {
			// A value that begins like a record can be deleted, even if it is damaged.
			if _, _, err := keys.Delete(ctx, admin.Record{Key: key}); !errors.Is(err, store.ErrForeign) {
				t.Errorf("deleting a key holding %s: got error %v, want a ForeignError", name, err)
			}
		}
		if !intact() {
			t.Errorf("the value %q (%s) was touched", value, name)
		}
	}
	good, err := storecall.New(backend).Peek(ctx, store.Key{Subject: "foreign", Name: "good"}, limit, 1)
	if err != nil || good.Used != 0 {
		t.Errorf("a key decided together with a foreign one: %+v, %v; want it unused", good, err)
	}
}

// keyspaceAdjusts adjusts hundreds of keys of two kinds at once, and checks each as if it had been adjusted alone.
func keyspaceAdjusts(t *testing.T, h Harness, kind store.Kind) {
	ctx := context.Background()
	backend := h.newKeys(t, func() time.Time { return epoch })
	lim := storecall.New(backend)
	limit, other := LimitOf(kind, 1000, time.Hour), store.Limit{
		Algorithm: store.FixedWindow, Count: 500, Period: time.Hour}
	var adjustments []admin.Adjustment
	for i := range 700 {
		a := admin.Adjustment{Key: store.Key{Subject: fmt.Sprintf("user:%d", i), Name: "limit"},
			Limit: limit, Used: 300}
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
		if _, err := backend.Adjust(ctx, adjustments[3], bad); !errors.Is(err, store.ErrInvalid) ||
			h.dump(t, backend) != before {
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
