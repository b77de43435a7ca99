package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// overridesAreBounded fills the table.
func overridesAreBounded(t *testing.T, h Harness) {
	now := epoch
	table, _ := admin.TablesOf(h.New(t, func() time.Time { return now }))
	ctx := context.Background()
	block := func(i int) store.Override {
		subject, err := store.ExactPattern(fmt.Sprintf("user:%d", i))
		if err != nil {
			t.Fatal(err)
		}
		return store.Override{Subjects: subject, Effect: store.OverrideBlock}
	}
	ids := map[string]bool{}
	for i := range admin.MaxOverrides {
		lasts := time.Hour
		if i == admin.MaxOverrides-1 {
			lasts = time.Minute
		}
		set, err := table.SetOverride(ctx, block(i), lasts)
		if err != nil {
			t.Fatal(err)
		}
		ids[set.ID] = true
	}
	if len(ids) != admin.MaxOverrides {
		t.Errorf("%d different IDs", len(ids))
	}
	before, err := table.OverrideVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = table.SetOverride(ctx, block(admin.MaxOverrides), time.Hour)
	if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), fmt.Sprint(admin.MaxOverrides)) {
		t.Errorf("one more: %v", err)
	}
	list, after, err := table.Overrides(ctx)
	if err != nil || len(list) != admin.MaxOverrides || after != before {
		t.Errorf("%d overrides of version %q, before %q; %v", len(list), after, before, err)
	}
	if _, err := table.SetOverride(ctx, block(0), time.Hour); err != nil {
		t.Errorf("one of them again: %v", err)
	}
	if before, err = table.OverrideVersion(ctx); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute + time.Millisecond)
	if after, err := table.OverrideVersion(ctx); err != nil || after != before {
		t.Errorf("after one has ended version %q is %q, %v", before, after, err)
	}
	if _, err := table.SetOverride(ctx, block(admin.MaxOverrides), time.Hour); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// overridesEndByThemselves uses the store's own clock.
func overridesEndByThemselves(t *testing.T, h Harness) {
	backend := h.New(t, nil)
	table, _ := admin.TablesOf(backend)
	ctx := context.Background()
	before := h.dump(t, backend)
	set, err := table.SetOverride(ctx, store.Override{Effect: store.OverrideBlock}, 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	all, err := store.ParsePattern("*")
	if err != nil {
		t.Fatal(err)
	}
	for entry, err := range scan(ctx, backend, admin.Query{Subjects: all}) {
		t.Errorf("a scan finds %+v, %v", entry, err)
	}
	for began := time.Now(); ; {
		version, err := table.OverrideVersion(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if version == "" {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%+v has not ended", set)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if list, version, err := table.Overrides(ctx); len(list) > 0 || version != "" || err != nil {
		t.Errorf("%+v, %q, %v", list, version, err)
	}
	if _, found, err := table.RevokeOverride(ctx, set.ID); found || err != nil {
		t.Errorf("revoked after its end: %v, %v", found, err)
	}
	if h.DropsEnded {
		if after := h.dump(t, backend); after != before {
			t.Errorf("left behind: %s", after)
		}
	}
}

// overridesAreSetTogether sets and revokes from many concurrent callers.
func overridesAreSetTogether(t *testing.T, h Harness) {
	table, _ := admin.TablesOf(h.New(t, nil))
	ctx := context.Background()
	const callers, each = 8, 10
	var wait sync.WaitGroup
	kept := make(chan string, callers*each)
	for caller := range callers {
		wait.Go(func() {
			for i := range each {
				o := store.Override{Effect: store.OverrideAdd, Units: int64(1 + caller*each + i)}
				set, err := table.SetOverride(ctx, o, time.Hour)
				if err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					kept <- set.ID
				} else if _, found, err := table.RevokeOverride(ctx, set.ID); !found || err != nil {
					t.Errorf("revoking %s: %v, %v", set.ID, found, err)
				}
				if _, _, err := table.Overrides(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	close(kept)
	want := map[string]bool{}
	for id := range kept {
		want[id] = true
	}
	list, _, err := table.Overrides(ctx)
	if err != nil || len(list) != len(want) {
		t.Errorf("%d overrides, want %d; %v", len(list), len(want), err)
	}
	for _, o := range list {
		if !want[o.ID] {
			t.Errorf("%s was revoked", o.ID)
		}
	}
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

// sinceWhen checks when a run of denials began: as far back as the process knows, and with the pause that ends
// a run, at it and beside it.
func sinceWhen(t *testing.T, h Harness) {
	key := store.Key{Subject: "user:42", Name: "n"}
	now := epoch.Truncate(10 * time.Minute)
	table, _ := newTables(t, h, func() time.Time { return now })
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
			now = now.Truncate(10 * time.Minute).Add(48 * time.Hour) // nothing of the case before is left
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
