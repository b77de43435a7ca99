package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// denials runs the laws of an [admin.Tables], if the stores have one.
func denials(t *testing.T, h Harness) {
	if _, has := admin.TablesOf(h.New(t, nil)); !has {
		return
	}
	t.Run("AddUp", func(t *testing.T) { t.Parallel(); denialsAddUp(t, h) })
	t.Run("AreKeptByStep", func(t *testing.T) { t.Parallel(); denialsAreKeptByStep(t, h) })
	t.Run("SinceWhen", func(t *testing.T) { t.Parallel(); denialsSinceWhen(t, h) })
	t.Run("AreBounded", func(t *testing.T) { t.Parallel(); denialsAreBounded(t, h) })
	t.Run("LetThroughIsBounded", func(t *testing.T) { t.Parallel(); letThroughIsBounded(t, h) })
	t.Run("AreChecked", func(t *testing.T) { t.Parallel(); denialsAreChecked(t, h) })
}

// addedDenials are denials with the instant at which they were added.
type addedDenials struct {
	at store.Instant
	admin.Denials
}

// denialsAddUp adds random denials while time passes, and checks every field of the sums of whole steps.
func denialsAddUp(t *testing.T, h Harness) {
	now := epoch
	table, _ := admin.TablesOf(h.New(t, func() time.Time { return now }))
	cases := 0
	check(t, func(t *rapid.T) {
		cases++
		now = epoch.Add(time.Duration(cases) * 48 * time.Hour) // nothing of the previous case is left
		var added []addedDenials
		for range rapid.IntRange(1, 10).Draw(t, "writes") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 20 * time.Second, 4 * time.Minute, 6 * time.Minute,
				3 * time.Hour}).Draw(t, "pause"))
			d := admin.Denials{Others: rapid.Int64Range(0, 2).Draw(t, "others"), Lost: rapid.Bool().Draw(t, "lost"),
				Now: store.InstantOf(epoch)} // the caller has another clock
			for i := range rapid.IntRange(0, 4).Draw(t, "rows") {
				row := admin.Denied{Key: store.Key{Subject: fmt.Sprintf("user:%d", i), Name: "n"},
					Count: rapid.Int64Range(1, 1<<40).Draw(t, "count"), Allowed: rapid.Int64Range(0, 1<<40).Draw(t, "allowed"),
					LastAt: d.Now - store.Instant(rapid.IntRange(0, 3000).Draw(t, "ms ago"))*1000}
				row.Since = row.LastAt - store.Instant(rapid.IntRange(0, 3000).Draw(t, "ms before"))*1000
				row.Compared = rapid.Int64Range(0, row.Count).Draw(t, "compared")
				row.Blocked = rapid.Int64Range(0, row.Count).Draw(t, "blocked")
				row.Override = rapid.SampledFrom([]string{"", "5y7qnswd", "8e2kd01x"}).Draw(t, "override")
				row.Limit = rapid.SampledFrom(deniedLimits).Draw(t, "limit")
				d.Rows = append(d.Rows, row)
			}
			for _, id := range rapid.SampledFrom(lettingThrough).Draw(t, "overrides") {
				count := rapid.Int64Range(1, 1<<40).Draw(t, "let through")
				d.LetThrough = append(d.LetThrough, admin.LetThrough{Override: id, Count: count})
			}
			if err := table.AddDenials(context.Background(), d); err != nil {
				t.Fatal(err)
			}
			added = append(added, addedDenials{store.InstantOf(now), d})
		}
		last := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 10 * time.Minute, time.Hour,
			time.Hour + time.Microsecond, 10 * time.Hour, admin.DenialHistory}).Draw(t, "last")
		got, err := table.Denials(context.Background(), last)
		if err != nil {
			t.Fatal(err)
		}
		want := sumOfDenials(added, store.InstantOf(now), last)
		if got.Others != want.Others || got.Lost != want.Lost || got.Now != want.Now || len(got.Rows) != len(want.Rows) ||
			got.Step != want.Step || got.FirstStep != want.FirstStep {
			t.Fatalf("of the last %s of %+v:\n%+v, want\n%+v", last, added, got, want)
		}
		if !reflect.DeepEqual(got.LetThrough, want.LetThrough) {
			t.Fatalf("of the last %s of %+v:\n%+v are let through, want\n%+v", last, added, got.LetThrough, want.LetThrough)
		}
		for i, row := range got.Rows {
			if i > 0 && row.Count > got.Rows[i-1].Count {
				t.Fatalf("not those denied most first: %+v", got.Rows)
			}
			held := *want.find(row.Key)
			row.Since, row.LastAt = row.Since/1000, row.LastAt/1000 // a store may keep only whole milliseconds
			held.Since, held.LastAt = held.Since/1000, held.LastAt/1000
			if !reflect.DeepEqual(row, held) {
				t.Fatalf("of the last %s of %+v:\n%+v, want\n%+v", last, added, row, held)
			}
		}
	})
}

// lettingThrough are IDs of overrides; a store takes any.
var lettingThrough = [][]string{nil, {"5y7qnswd"}, {"8e2kd01x", "5y7qnswd", "a: '\"\n*ü\xff"}}

// deniedLimits are limits of rows; one is unknown.
var deniedLimits = []store.Limit{{}, {Algorithm: store.TokenBucket, Count: 10, Period: time.Minute, Burst: 20},
	{Algorithm: store.SlidingCounter, Count: 5, Period: time.Hour, Slices: 6}}

// denialsAreKeptByStep checks that a step is kept as long as one of its instants is within the history of its length,
// even if others are added then, and a row as long as its last denial is.
func denialsAreKeptByStep(t *testing.T, h Harness) {
	for _, step := range []struct{ length, history time.Duration }{
		{time.Minute, admin.DenialMinutes}, {10 * time.Minute, admin.DenialHistory},
	} {
		begin := epoch.Truncate(step.length)
		now := begin.Add(40 * time.Second)
		table, _ := admin.TablesOf(h.New(t, func() time.Time { return now }))
		ctx := context.Background()
		of := func(subject string) admin.Denials {
			at := store.InstantOf(now)
			row := admin.Denied{Key: store.Key{Subject: subject, Name: "n"}, Count: 1, LastAt: at}
			return admin.Denials{Rows: []admin.Denied{row}, Others: 1, Now: at,
				LetThrough: []admin.LetThrough{{Override: "5y7qnswd", Count: 1}}}
		}
		if err := table.AddDenials(ctx, of("old")); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			after        time.Duration // from the beginning of the step
			rows, others int64
		}{
			{step.history + 40*time.Second - time.Millisecond, 1, 1},
			{step.history + 40*time.Second, 0, 1},
			{step.history + step.length - time.Millisecond, 0, 1},
			{step.history + step.length, 0, 0},
		} {
			now = begin.Add(test.after)
			before, err := table.Denials(ctx, step.history)
			if err != nil {
				t.Fatal(err)
			}
			if rows := int64(len(before.Rows)); rows != test.rows || before.Others != test.others ||
				letThrough(&before, "5y7qnswd") != test.others {
				t.Errorf("%s after the step began: %+v; want %d rows, %d others and as many let through", test.after, before,
					test.rows, test.others)
			}
		}
		now = begin.Add(step.history + 39*time.Second)
		if err := table.AddDenials(ctx, of("new")); err != nil {
			t.Fatal(err)
		}
		if d, err := table.Denials(ctx, step.history); err != nil || len(d.Rows) != 2 || d.Others != 2 || letThrough(&d, "5y7qnswd") != 2 {
			t.Errorf("%s after the step began, others being added: %+v, %v", step.history, d, err)
		}
	}
}

// denialsSinceWhen checks when a run of denials began: as far back as the process knows, and with the pause that ends
// a run, at it and beside it.
func denialsSinceWhen(t *testing.T, h Harness) {
	key := store.Key{Subject: "user:42", Name: "n"}
	for name, test := range map[string]struct {
		pause time.Duration // since the first denial
		since time.Duration // how long before the second denial its run began, as its process knows
		want  time.Duration // since the second denial
	}{
		"within a minute": {pause: time.Second, want: time.Second},
		"a pause":         {pause: admin.DenialPause, want: admin.DenialPause},
		"a new run":       {pause: admin.DenialPause + time.Millisecond},
		"known for hours": {pause: admin.DenialPause + time.Millisecond, since: 3 * time.Hour, want: 3 * time.Hour},
		"known for less":  {pause: 2 * time.Minute, since: time.Second, want: 2 * time.Minute},
	} {
		for _, last := range []time.Duration{admin.DenialMinutes, admin.DenialHistory} {
			now := epoch.Truncate(10 * time.Minute)
			table, _ := admin.TablesOf(h.New(t, func() time.Time { return now }))
			add := func(since time.Duration) {
				t.Helper()
				d := admin.Denials{Now: store.InstantOf(now)}
				d.Rows = []admin.Denied{{Key: key, Count: 1, LastAt: d.Now, Since: store.InstantOf(now.Add(-since))}}
				if err := table.AddDenials(context.Background(), d); err != nil {
					t.Fatal(err)
				}
			}
			add(0)
			now = now.Add(test.pause)
			add(test.since)
			d, err := table.Denials(context.Background(), last)
			if err != nil || len(d.Rows) != 1 || d.Rows[0].Since != store.InstantOf(now.Add(-test.want)) {
				t.Errorf("%s: of the last %s there are %+v, %v at %d; want a run of %s", name, last, d.Rows, err,
					store.InstantOf(now), test.want)
			}
		}
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

// addDenied adds what came later to the sum of a key.
func addDenied(sum, row *admin.Denied) {
	if sum.Count == 0 || row.Since > sum.LastAt+store.Instant(admin.DenialPause.Microseconds()) {
		sum.Since = row.Since
	}
	sum.Since = min(sum.Since, row.Since)
	sum.Count, sum.Blocked, sum.Allowed = sum.Count+row.Count, sum.Blocked+row.Blocked, sum.Allowed+row.Allowed
	sum.LastAt, sum.Compared = max(sum.LastAt, row.LastAt), sum.Compared+row.Compared
	if row.Limit.Count > 0 {
		sum.Limit = row.Limit
	}
	if row.Override != "" {
		sum.Override = row.Override
	}
	sum.Steps = append(sum.Steps, row.Steps...)
}

// sumOfDenials returns the expected denials of a table. The rows of a step are either all included or not at all. Runs
// are short, and denials come in their order but for seconds.
func sumOfDenials(added []addedDenials, now store.Instant, last time.Duration) (sum foundDenials) {
	length := time.Minute
	if last > admin.DenialMinutes {
		length = 10 * time.Minute
	}
	step, since := store.Instant(length.Microseconds()), now-store.Instant(last.Microseconds())
	steps := map[store.Instant]*foundDenials{}
	through := map[string]int64{}
	for _, d := range added {
		if d.at/step < since/step {
			continue
		}
		for _, l := range d.LetThrough {
			through[l.Override] += l.Count
		}
		m := steps[d.at/step]
		if m == nil {
			m = &foundDenials{}
			steps[d.at/step] = m
		}
		sum.Others, sum.Lost = sum.Others+d.Others, sum.Lost || d.Lost
		for _, row := range d.Rows {
			row.LastAt, row.Since = d.at-(d.Now-row.LastAt), d.at-(d.Now-row.Since)
			addDenied(m.find(row.Key), &row)
		}
	}
	for number := since / step; number <= now/step; number++ {
		if steps[number] == nil {
			continue
		}
		for _, row := range steps[number].Rows {
			if row.LastAt/1000 > since/1000 {
				row.Steps = []admin.DenialStep{{Number: int64(number), Count: row.Count}}
				addDenied(sum.find(row.Key), &row)
			}
		}
	}
	for id, count := range through {
		sum.LetThrough = append(sum.LetThrough, admin.LetThrough{Override: id, Count: count})
	}
	slices.SortFunc(sum.LetThrough, func(a, b admin.LetThrough) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Override, b.Override))
	})
	sum.Now, sum.Step, sum.FirstStep = now, length, int64(since/step)
	return sum
}

// denialsAreBounded denies thousands of keys in a minute, and checks that the most denied ones are kept, and that
// the total is right.
func denialsAreBounded(t *testing.T, h Harness) {
	now := epoch
	backend := h.New(t, func() time.Time { return now })
	table, _ := admin.TablesOf(backend)
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
	coarse, err := table.Denials(ctx, admin.DenialHistory)
	if err != nil || coarse.Total() != total || len(coarse.Rows) > admin.CoarseDenialsKept ||
		len(coarse.Rows) < admin.CoarseDenialsKept/2 || coarse.Rows[9].Count != 60 {
		t.Errorf("of a day: %d rows and %d others, %d in all, want %d; %v", len(coarse.Rows), coarse.Others, coarse.Total(), total, err)
	}
}

// letThrough returns how many takes an override let through.
func letThrough(d *admin.Denials, override string) (count int64) {
	for _, l := range d.LetThrough {
		if l.Override == override {
			count += l.Count
		}
	}
	return count
}

// letThroughIsBounded checks that a step has so many overrides, whether one more comes by itself or beside one that is
// known, and that the next step has room again.
func letThroughIsBounded(t *testing.T, h Harness) {
	now := epoch.Truncate(10 * time.Minute).Add(30 * time.Second)
	table, _ := admin.TablesOf(h.New(t, func() time.Time { return now }))
	ctx := context.Background()
	add := func(ids ...string) {
		t.Helper()
		d := admin.Denials{Now: store.InstantOf(now)}
		for _, id := range ids {
			d.LetThrough = append(d.LetThrough, admin.LetThrough{Override: id, Count: 2})
		}
		if err := table.AddDenials(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	check := func(last time.Duration, overrides int, of map[string]int64) {
		t.Helper()
		d, err := table.Denials(ctx, last)
		if err != nil || len(d.LetThrough) != overrides || len(d.Rows) != 0 || !d.Exact() || d.Total() != 0 {
			t.Errorf("of the last %s: %d overrides, %d denials, %v; want %d overrides", last, len(d.LetThrough), d.Total(), err, overrides)
		}
		for id, count := range of {
			if got := letThrough(&d, id); got != count {
				t.Errorf("of the last %s: %s let through %d, want %d", last, id, got, count)
			}
		}
	}
	id := func(i int) string { return fmt.Sprintf("id%06d", i) }
	for first := 0; first < admin.LetThroughKept-1; first += admin.MaxDenialRows {
		var ids []string
		for i := first; i < min(first+admin.MaxDenialRows, admin.LetThroughKept-1); i++ {
			ids = append(ids, id(i))
		}
		add(ids...)
	}
	add("last", "beyond", id(0)) // there is room for one of them
	add("beyond")
	add("last", "beyond")
	for _, last := range []time.Duration{time.Second, admin.DenialHistory} {
		check(last, admin.LetThroughKept, map[string]int64{"last": 4, "beyond": 0, id(0): 4, id(admin.LetThroughKept - 2): 2})
	}
	now = now.Add(time.Minute) // another minute of the same ten
	add("beyond")
	check(time.Second, 1, map[string]int64{"beyond": 2})
	check(admin.DenialHistory, admin.LetThroughKept, map[string]int64{"beyond": 0})
	now = now.Add(10 * time.Minute)
	add("beyond")
	check(2*time.Hour, admin.LetThroughKept+1, map[string]int64{"beyond": 2})
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
	table, _ := admin.TablesOf(h.New(t, nil))
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
		{Rows: []admin.Denied{{Key: key, Count: 1, Blocked: 2}}},
		{Rows: []admin.Denied{{Key: key, Count: 1, Blocked: -1}}},
		{Rows: []admin.Denied{{Key: key, Count: 1, Allowed: -1}}},
		{Rows: []admin.Denied{{Key: key, Count: 1, Compared: 2}}},
		{Rows: []admin.Denied{{Key: key, Count: 1, Compared: -1}}},
		{Rows: []admin.Denied{{Key: key, Count: 1, Override: "a\x00b"}}},
		{Rows: []admin.Denied{{Key: key, Count: 1, Override: strings.Repeat("i", admin.MaxDenialText+1)}}},
		{Rows: []admin.Denied{{Key: key, Count: 1, Limit: store.Limit{Count: -1, Period: time.Second}}}},
		{Others: -1},
		{LetThrough: make([]admin.LetThrough, admin.MaxDenialRows+1)},
		{LetThrough: []admin.LetThrough{{Override: "5y7qnswd", Count: 0}}},
		{LetThrough: []admin.LetThrough{{Override: "5y7qnswd", Count: -1}}},
		{LetThrough: []admin.LetThrough{{Override: "", Count: 1}}},
		{LetThrough: []admin.LetThrough{{Override: "a\x00b", Count: 1}}},
		{LetThrough: []admin.LetThrough{{Override: strings.Repeat("i", admin.MaxDenialText+1), Count: 1}}},
		{LetThrough: []admin.LetThrough{{Override: "5y7qnswd", Count: 1}, {Override: "5y7qnswd", Count: 1}}},
	} {
		if err := table.AddDenials(ctx, d); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%.80v: %v", d, err)
		}
	}
	for _, last := range []time.Duration{0, -time.Second, admin.DenialHistory + 1} {
		if _, err := table.Denials(ctx, last); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("the last %s: %v", last, err)
		}
	}
	shortened := admin.Denied{Key: long, Count: 1}
	shortened.Shorten()
	longest := admin.LetThrough{Override: strings.Repeat("i", admin.MaxDenialText), Count: 1}
	added := admin.Denials{Rows: []admin.Denied{shortened}, LetThrough: []admin.LetThrough{longest}}
	if err := table.AddDenials(ctx, added); err != nil {
		t.Errorf("%q: %v", shortened.Key.Subject, err)
	}
	if got, err := table.Denials(ctx, time.Hour); err != nil || len(got.Rows) != 1 || got.Rows[0].Key != shortened.Key || !got.Exact() ||
		!slices.Equal(got.LetThrough, added.LetThrough) {
		t.Errorf("%+v, %v", got, err)
	}
}
