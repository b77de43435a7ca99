package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// denials runs the laws of an [admin.DenialTable], if the stores have one.
func denials(t *testing.T, h Harness) {
	if _, has := admin.DenialTableOf(h.New(t, nil)); !has {
		return
	}
	t.Run("AddUp", func(t *testing.T) { t.Parallel(); denialsAddUp(t, h) })
	t.Run("LastAnHour", func(t *testing.T) { t.Parallel(); denialsLastAnHour(t, h) })
	t.Run("AreDescribed", func(t *testing.T) { t.Parallel(); denialsAreDescribed(t, h) })
	t.Run("HaveRuns", func(t *testing.T) { t.Parallel(); denialsHaveRuns(t, h) })
	t.Run("LastADay", func(t *testing.T) { t.Parallel(); denialsLastADay(t, h) })
	t.Run("AreBounded", func(t *testing.T) { t.Parallel(); denialsAreBounded(t, h) })
	t.Run("AreChecked", func(t *testing.T) { t.Parallel(); denialsAreChecked(t, h) })
}

// addedDenials are denials with the instant at which they were added.
type addedDenials struct {
	at store.Instant
	admin.Denials
}

// denialsAddUp adds random denials while time passes, and checks the sums of whole minutes.
func denialsAddUp(t *testing.T, h Harness) {
	now := epoch
	table, _ := admin.DenialTableOf(h.New(t, func() time.Time { return now }))
	cases := 0
	rapid.Check(t, func(t *rapid.T) {
		cases++
		now = epoch.Add(time.Duration(cases) * 24 * time.Hour) // nothing of the previous case is left
		var added []addedDenials
		for range rapid.IntRange(1, 10).Draw(t, "writes") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 20 * time.Second, 5 * time.Minute}).Draw(t, "pause"))
			d := admin.Denials{Others: rapid.Int64Range(0, 2).Draw(t, "others"), Lost: rapid.Bool().Draw(t, "lost"),
				Now: store.InstantOf(epoch)} // the caller has another clock
			for i := range rapid.IntRange(0, 4).Draw(t, "rows") {
				ago := store.Instant(rapid.IntRange(0, 3000).Draw(t, "ms ago")) * 1000
				d.Rows = append(d.Rows, admin.Denied{Key: store.Key{Subject: fmt.Sprintf("user:%d", i), Name: "n"},
					Count: rapid.Int64Range(1, 1<<40).Draw(t, "count"), LastAt: d.Now - ago})
			}
			if err := table.AddDenials(context.Background(), d); err != nil {
				t.Fatal(err)
			}
			added = append(added, addedDenials{store.InstantOf(now), d})
		}
		last := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 10 * time.Minute, time.Hour}).Draw(t, "last")
		got, err := table.Denials(context.Background(), last)
		if err != nil {
			t.Fatal(err)
		}
		want := sumOfDenials(added, store.InstantOf(now), last)
		if got.Others != want.Others || got.Lost != want.Lost || got.Now != want.Now || len(got.Rows) != len(want.Rows) {
			t.Fatalf("of the last %s of %+v:\n%+v, want\n%+v", last, added, got, want)
		}
		for i, row := range got.Rows {
			if i > 0 && row.Count > got.Rows[i-1].Count {
				t.Fatalf("not those denied most first: %+v", got.Rows)
			}
			// A store may keep only whole milliseconds.
			held := want.find(row.Key)
			if row.Count != held.Count || row.LastAt/1000 != held.LastAt/1000 {
				t.Fatalf("%+v, want %+v", row, held)
			}
		}
	})
}

// denialsLastAnHour checks that a minute is kept as long as one of its instants is within the last hour, even if
// others are added then, and a row for an hour.
func denialsLastAnHour(t *testing.T, h Harness) {
	begin := epoch.Truncate(time.Minute)
	now := begin.Add(40 * time.Second)
	table, _ := admin.DenialTableOf(h.New(t, func() time.Time { return now }))
	ctx := context.Background()
	of := func(subject string) admin.Denials {
		at := store.InstantOf(now)
		return admin.Denials{Rows: []admin.Denied{{Key: store.Key{Subject: subject, Name: "n"}, Count: 1, LastAt: at}}, Others: 1, Now: at}
	}
	if err := table.AddDenials(ctx, of("old")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		after        time.Duration // from the beginning of the minute
		rows, others int64
	}{
		{time.Hour + 40*time.Second - time.Millisecond, 1, 1},
		{time.Hour + 40*time.Second, 0, 1},
		{time.Hour + time.Minute - time.Millisecond, 0, 1},
		{time.Hour + time.Minute, 0, 0},
	} {
		now = begin.Add(test.after)
		before, err := table.Denials(ctx, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if rows := int64(len(before.Rows)); rows != test.rows || before.Others != test.others {
			t.Errorf("%s after the minute began: %+v; want %d rows and %d others", test.after, before, test.rows, test.others)
		}
	}
	now = begin.Add(time.Hour + 39*time.Second)
	if err := table.AddDenials(ctx, of("new")); err != nil {
		t.Fatal(err)
	}
	if d, err := table.Denials(ctx, time.Hour); err != nil || len(d.Rows) != 2 || d.Others != 2 {
		t.Errorf("an hour after the minute began, others being added: %+v, %v", d, err)
	}
}

// foundDenials are denials with a search for a row.
type foundDenials struct{ admin.Denials }

func (d *foundDenials) find(key store.Key) *admin.Denied {
	for i := range d.Rows {
		if d.Rows[i].Key == key {
			return &d.Rows[i]
		}
	}
	d.Rows = append(d.Rows, admin.Denied{Key: key})
	return &d.Rows[len(d.Rows)-1]
}

// sumOfDenials returns the expected denials of a table. The rows of a minute are either all included or not at all.
func sumOfDenials(added []addedDenials, now store.Instant, last time.Duration) (sum foundDenials) {
	const minute = store.Instant(60e6)
	since := now - store.Instant(last/time.Microsecond)
	minutes := map[store.Instant]*foundDenials{}
	for _, d := range added {
		if d.at/minute < since/minute {
			continue
		}
		m := minutes[d.at/minute]
		if m == nil {
			m = &foundDenials{}
			minutes[d.at/minute] = m
		}
		sum.Others, sum.Lost = sum.Others+d.Others, sum.Lost || d.Lost
		for _, row := range d.Rows {
			held := m.find(row.Key)
			held.Count += row.Count
			held.LastAt = max(held.LastAt, d.at-(d.Now-row.LastAt))
		}
	}
	for _, m := range minutes {
		for _, row := range m.Rows {
			if row.LastAt/1000 > since/1000 {
				held := sum.find(row.Key)
				held.Count, held.LastAt = held.Count+row.Count, max(held.LastAt, row.LastAt)
			}
		}
	}
	sum.Now = now
	return sum
}

// denialsAreBounded denies thousands of keys in a minute, and checks that the most denied ones are kept, and that
// the total is right.
func denialsAreBounded(t *testing.T, h Harness) {
	now := epoch
	backend := h.New(t, func() time.Time { return now })
	table, _ := admin.DenialTableOf(backend)
	ctx := context.Background()
	total := int64(0)
	for write := range 20 {
		d := admin.Denials{Now: store.InstantOf(now)}
		for i := range admin.MaxDenialRows {
			row := admin.Denied{Key: store.Key{Subject: fmt.Sprintf("rare:%d:%d", write, i), Name: "n"}, Count: 1 + int64(i%2),
				LastAt: d.Now}
			if i < 10 {
				row.Key.Subject, row.Count = fmt.Sprintf("often:%d", i), 3
			}
			d.Rows = append(d.Rows, row)
			total += row.Count
		}
		if err := table.AddDenials(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	got, err := table.Denials(ctx, time.Minute)
	if err != nil || got.Total() != total || got.Exact() || len(got.Rows) > admin.DenialsKept || len(got.Rows) < admin.DenialsKept/2 {
		t.Fatalf("%d rows and %d others, %d in all, want %d; %v", len(got.Rows), got.Others, got.Total(), total, err)
	}
	for i := range 10 {
		if row := got.Rows[i]; !strings.HasPrefix(row.Key.Subject, "often:") || row.Count != 60 {
			t.Errorf("row %d is %+v", i, row)
		}
	}
	for _, row := range got.Rows[10:] {
		if row.Count != 2 {
			t.Errorf("kept %+v, though others were denied more", row)
			break
		}
	}
	for entry, err := range scan(ctx, backend, admin.Query{Subjects: patternOfAll(t)}) {
		t.Errorf("a scan finds %+v, %v", entry, err)
	}
	now = now.Add(admin.DenialHistory + 2*time.Minute)
	if got, err := table.Denials(ctx, time.Hour); err != nil || len(got.Rows) > 0 || got.Others > 0 {
		t.Errorf("after more than an hour: %+v, %v", got, err)
	}
}

func patternOfAll(t *testing.T) store.Pattern {
	t.Helper()
	all, err := store.ParsePattern("*")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// denialsAreChecked checks that invalid denials are refused.
func denialsAreChecked(t *testing.T, h Harness) {
	table, _ := admin.DenialTableOf(h.New(t, nil))
	ctx := context.Background()
	key := store.Key{Subject: "user:42", Name: "n"}
	long := store.Key{Subject: strings.Repeat("é", 101), Name: "n"}
	for _, d := range []admin.Denials{
		{Rows: make([]admin.Denied, admin.MaxDenialRows+1)},
		{Rows: []admin.Denied{{Key: store.Key{Subject: "user:42"}, Count: 1}}},
		{Rows: []admin.Denied{{Key: long, Count: 1}}},
		{Rows: []admin.Denied{{Key: store.Key{Subject: "a\x00b", Name: "n"}, Count: 1}}},
		{Rows: []admin.Denied{{Key: key, Count: 0}}},
		{Rows: []admin.Denied{{Key: key, Count: 1}, {Key: key, Count: 1}}},
		{Others: -1},
	} {
		if err := table.AddDenials(ctx, d); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%.80v: %v", d, err)
		}
	}
	for _, last := range []time.Duration{0, -time.Second, 24*time.Hour + 1} {
		if _, err := table.Denials(ctx, last); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("the last %s: %v", last, err)
		}
	}
	shortened := admin.Denied{Key: long, Count: 1}
	shortened.Shorten()
	if err := table.AddDenials(ctx, admin.Denials{Rows: []admin.Denied{shortened}}); err != nil {
		t.Errorf("%q: %v", shortened.Key.Subject, err)
	}
	if got, err := table.Denials(ctx, time.Hour); err != nil || len(got.Rows) != 1 || got.Rows[0].Key != shortened.Key || !got.Exact() {
		t.Errorf("%+v, %v", got, err)
	}
}
