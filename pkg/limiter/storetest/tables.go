package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// tables runs the laws of an [admin.SideTable], if the stores have one. What its records mean, the tests of package
// admin say; here each change is made of a store in memory, too, and everything that can be read is compared.
func tables(t *testing.T, h Harness) {
	if _, has := admin.TablesOf(h.New(t, nil)); !has {
		return
	}
	for name, law := range map[string]func(*testing.T, *twins){
		"MatchTheReference": tablesMatchTheReference, "OneOfManyChanges": tablesAreChangedByOne,
		"End": recordsEndByThemselves, "ListsAreBounded": listsAreBounded, "OverridesAreBounded": overridesAreBounded,
		"DenialsAreBounded": denialsAreBounded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &twins{h: h, now: epoch.Truncate(10 * time.Minute)} // a store may keep only whole milliseconds
			clock := func() time.Time { return w.now }
			if name == "End" || name == "OneOfManyChanges" {
				clock = nil
			}
			w.backend = h.New(t, clock)
			w.Tables, _ = admin.TablesOf(w.backend)
			w.reference = &memorystore.New(memorystore.WithClock(func() time.Time { return w.now })).Tables
			law(t, w)
			all, _ := store.ParsePattern("*")
			for entry, err := range scan(context.Background(), w.backend, admin.Query{Subjects: all}) {
				t.Errorf("a scan of limits finds %+v, %v", entry, err)
			}
		})
	}
}

// twins are the tables of a store, and those of a store in memory.
type twins struct {
	*admin.Tables
	reference *admin.Tables
	backend   store.Store
	now       time.Time
	h         Harness
}

// same does something with both, and checks that the answers are the same, and that a store writes nothing if it says
// no.
func (w *twins) same(t rapid.TB, what any, do func(*admin.Tables) (answer any, said bool, err error)) {
	t.Helper()
	before := ""
	if tb, is := t.(testing.TB); is {
		before = w.h.dump(tb, w.backend)
	}
	got, said, err := do(w.Tables)
	want, said2, err2 := do(w.reference)
	if !reflect.DeepEqual(got, want) || said != said2 ||
		errors.Is(err, store.ErrInvalid) != errors.Is(err2, store.ErrInvalid) ||
		(err == nil) != (err2 == nil) {
		t.Fatalf("%.300v:\n%.2000q, %t, %v, want\n%.2000q, %t, %v", what, got, said, err, want, said2, err2)
	}
	if tb, is := t.(testing.TB); is && (!said || err != nil) && w.h.dump(tb, w.backend) != before {
		t.Fatalf("%.300v: it writes", what)
	}
}

// change makes a change of both.
func (w *twins) change(t rapid.TB, c *admin.Change) {
	t.Helper()
	c.What = "change"
	w.same(t, *c, func(tables *admin.Tables) (any, bool, error) {
		done, err := tables.Change(context.Background(), c)
		return done, done, err
	})
}

func (w *twins) addDenials(t rapid.TB, d admin.Denials) {
	t.Helper()
	w.same(t, d, func(tables *admin.Tables) (any, bool, error) {
		return nil, true, tables.AddDenials(context.Background(), d)
	})
}

// read checks that all is the same that can be read, with the denials of the last time.
func (w *twins) read(t rapid.TB, last time.Duration) {
	t.Helper()
	ctx := context.Background()
	w.same(t, "read", func(tables *admin.Tables) (any, bool, error) {
		overrides, version, err := tables.Overrides(ctx)
		look, err2 := tables.OverrideVersion(ctx)
		d, err3 := tables.Denials(ctx, last)
		answer := []any{version == look && (version == "") == (len(overrides) == 0)}
		for i := range overrides {
			answer = append(answer, words(&overrides[i]))
		}
		slices.SortStableFunc(d.Rows, func(a, b admin.Denied) int { // of those denied as often, the order is free
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key.Subject, b.Key.Subject))
		})
		answer = append(answer, d)
		for _, l := range []admin.List{admin.JournalList, admin.HistoryList} {
			lines, damaged, err := tables.Lines(ctx, l, 9)
			for i, line := range lines {
				sorted := !line.At.IsZero() && (i == 0 || !line.At.Before(lines[i-1].At))
				answer = append(answer, line.Text, sorted)
			}
			answer, err3 = append(answer, damaged), cmp.Or(err3, err)
		}
		for _, name := range []string{"", "1", "2", "4"} {
			value, err := tables.Value(ctx, admin.ConfigTable, name)
			answer = append(answer, fmt.Sprintf("%.9q %d %x", value, len(value), crc32.ChecksumIEEE([]byte(value))))
			err3 = cmp.Or(err3, err)
		}
		return answer, false, cmp.Or(err, err2, err3)
	})
}

// words describes an override, with its times.
func words(o *store.Override) string {
	return fmt.Sprint(o.ID, o.Subjects, o.Names, o.Attributes, o.Effect, o.Limit, o.Thousandths, o.Units, o.Reason,
		o.By,
		o.CreatedAt.UnixMicro(), o.ExpiresAt.UnixMicro())
}

// tablesMatchTheReference changes everything at random, and lets time pass.
func tablesMatchTheReference(t *testing.T, w *twins) {
	ctx := context.Background()
	table, keys := admin.Table(0), map[string]bool{}
	for ; table.Check() == nil; table++ {
		found, _, err := w.Get(ctx, table, "9")
		keys[table.Key("9")] = true
		if err != nil || len(found) > 0 || len(keys) != int(table)+1 {
			t.Errorf("%s have %v, %v, and the keys %v", table, found, err, keys)
		}
	}
	_, _, err := w.Get(ctx, table, "9")
	_, err2 := w.Change(ctx, &admin.Change{Table: table, Set: []admin.TableRecord{{Name: "9", Value: "x"}}})
	if !errors.Is(err, store.ErrInvalid) || !errors.Is(err2, store.ErrInvalid) {
		t.Errorf("of an unknown table: %v, %v", err, err2)
	}
	// this one ends a run of denials
	for _, pause := range []time.Duration{admin.DenialPause, admin.DenialPause + time.Millisecond} {
		w.now = w.now.Truncate(10 * time.Minute).Add(48 * time.Hour)
		for range 2 {
			row := admin.Denied{Key: store.Key{Subject: "u", Name: "n"}, Count: 1, LastAt: store.InstantOf(w.now)}
			w.addDenials(t, admin.Denials{Rows: []admin.Denied{row}, Now: row.LastAt})
			w.now = w.now.Add(pause)
		}
		w.read(t, admin.DenialHistory)
	}
	versions := map[string]bool{}
	check(t, func(t *rapid.T) {
		w.now = w.now.Add(store.MaxOverrideTime + time.Hour) // so that nothing of the previous case is left
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			w.now = w.now.Add(rapid.SampledFrom(
				[]time.Duration{0, time.Millisecond, time.Second, 20 * time.Second, admin.DenialPause,
					admin.DenialPause + time.Millisecond, time.Hour, time.Hour + time.Minute, 3 * time.Hour}).Draw(
				t, "pause"))
			inForce, _, _ := w.reference.Overrides(ctx)
			before, _ := w.OverrideVersion(ctx)
			changed := false
			switch what := rapid.IntRange(0, 6).Draw(t, "what"); {
			case what < 2:
				w.addDenials(t, drawDenials(t))
			case what < 4:
				// the texts are admin's
				o := store.Override{Effect: store.OverrideAdd, Units: rapid.Int64Range(1, 5).Draw(t, "units"),
					Reason: rapid.SampledFrom([]string{"", "INC-7: a \"flood\" <é>"}).Draw(t, "reason")}
				lasts := rapid.SampledFrom([]time.Duration{1e6, 1e9, time.Hour, store.MaxOverrideTime}).Draw(t, "lasts")
				changed = true
				w.same(t, o, func(tables *admin.Tables) (any, bool, error) {
					set, err := tables.SetOverride(ctx, o, lasts)
					return words(&set), true, err
				})
			case what == 4 && len(inForce) > 0:
				id := rapid.SampledFrom(inForce).Draw(t, "which").ID
				changed = true
				w.same(t, id, func(tables *admin.Tables) (any, bool, error) {
					o, found, err := tables.RevokeOverride(ctx, id)
					return words(&o), found, err
				})
			case what == 5:
				head, _ := w.reference.Value(ctx, admin.ConfigTable, "")
				draw := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
				long := func(size int) string {
					return strings.Repeat("\xff\x00é", size/4) + strings.Repeat("h", size%4)
				}
				c := &admin.Change{Table: admin.ConfigTable, Was: draw("was", head, head, head+" ", "one"),
					Line: draw("line", "a", "a", "\n", "\xff", strings.Repeat("l", admin.MaxJournalText+1)),
					Set: []admin.TableRecord{{Value: draw("head", "one", "one", long(admin.MaxConfigHead),
						long(admin.MaxConfigHead+1), "")}}}
				name := draw("name", "1", "2", "4")
				value := draw("value", "drop", "b", long(admin.MaxConfigRecord), long(admin.MaxConfigRecord+1))
				if c.Drop = []string{name}; value != "drop" {
					c.Set, c.Drop = append(c.Set, admin.TableRecord{Name: name, Value: value}), nil
				}
				w.change(t, c)
			case what == 6:
				text := rapid.SampledFrom(
					[]string{"{}", "two\nlines\x00", strings.Repeat("é", admin.MaxJournalText/2)}).Draw(t, "text")
				w.same(t, text, func(tables *admin.Tables) (any, bool, error) {
					return nil, true, tables.AppendJournal(ctx, text)
				})
			}
			version, err := w.OverrideVersion(ctx)
			if err != nil || version != "" && (changed && versions[version] || !changed && version != before) {
				t.Fatalf("version %q became %q, changed %t; %v", before, version, changed, err)
			}
			versions[version] = true
		}
		w.read(t, rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 10 * time.Minute, time.Hour,
			time.Hour + time.Microsecond, 10 * time.Hour, admin.DenialHistory}).Draw(t, "last"))
	})
}

// drawDenials draws denials by the clock of another process.
func drawDenials(t *rapid.T) admin.Denials {
	d := admin.Denials{Others: rapid.Int64Range(0, 2).Draw(t, "others"), Lost: rapid.Bool().Draw(t, "lost"),
		Now: store.InstantOf(epoch)}
	ago := func(what string) store.Instant {
		return rapid.SampledFrom([]store.Instant{0, 1, 3000, 299_999, 300_000, 300_001, 3_600_000}).Draw(t, what) * 1000
	}
	limits := []store.Limit{{}, {Algorithm: store.TokenBucket, Count: 10, Period: time.Minute, Burst: 20},
		{Algorithm: store.SlidingCounter, Count: 5, Period: time.Hour, Slices: 6}}
	for i := range rapid.IntRange(0, 4).Draw(t, "rows") {
		row := admin.Denied{Key: store.Key{Subject: fmt.Sprintf("user:%d", i), Name: "n"},
			Count: rapid.Int64Range(1, 1<<40).Draw(t, "count"), Allowed: rapid.Int64Range(0, 1<<40).Draw(t, "allowed"),
			LastAt: d.Now - ago("last"), Limit: rapid.SampledFrom(limits).Draw(t, "limit"),
			Override: rapid.SampledFrom([]string{"", "5y7qnswd", "a: '\"\n*ü\xff"}).Draw(t, "override")}
		row.Since = row.LastAt - ago("since")
		row.Compared = rapid.Int64Range(0, row.Count).Draw(t, "compared")
		row.Blocked = rapid.Int64Range(0, row.Count).Draw(t, "blocked")
		d.Rows = append(d.Rows, row)
	}
	return d
}

// tablesAreChangedByOne lets several change a table at once: one succeeds, and overrides are all set.
func tablesAreChangedByOne(t *testing.T, w *twins) {
	ctx := context.Background()
	var together sync.WaitGroup
	ids, winners, kept := make([]string, 8), make([]string, 8), make([]string, 8)
	for i := range ids {
		together.Go(func() {
			id, err := w.EnsureStoreID(ctx)
			head := fmt.Sprint("head ", i)
			done, err2 := w.Change(ctx, &admin.Change{Table: admin.ConfigTable, What: "change", Line: head,
				Set: []admin.TableRecord{{Name: "1", Value: head}, {Value: head}}})
			if ids[i] = id; done {
				winners[i] = head
			}
			for units := range int64(6) {
				set, err := w.SetOverride(ctx, store.Override{Effect: store.OverrideAdd, Units: int64(i)*6 + units + 1},
					time.Hour)
				if kept[i] = set.ID; err == nil && units < 5 {
					_, _, err = w.RevokeOverride(ctx, set.ID)
				}
				if err != nil {
					t.Error(err)
				}
			}
			if err := cmp.Or(err, err2); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	if id, err := w.StoreID(ctx); err != nil || !admin.IsStoreID(id) || len(slices.Compact(append(ids, id))) != 1 {
		t.Errorf("several at once get the ids %q, %v", ids, err)
	}
	head, err := w.Value(ctx, admin.ConfigTable, "")
	record, err2 := w.Value(ctx, admin.ConfigTable, "1")
	lines, _, err3 := w.Lines(ctx, admin.HistoryList, 9)
	if err := cmp.Or(err, err2, err3); err != nil || head != strings.Join(winners, "") || record != head ||
		len(lines) != 1 {
		t.Errorf("changed by %q: the head is %q, the record %q, and the history %v; %v", winners, head, record, lines,
			err)
	}
	list, _, err := w.Overrides(ctx)
	isNew := func(o store.Override) bool { return !slices.Contains(kept, o.ID) }
	if err != nil || len(list) != len(kept) || slices.ContainsFunc(list, isNew) {
		t.Errorf("in force are %v, want %q; %v", list, kept, err)
	}
}

// recordsEndByThemselves uses the store's own clock.
func recordsEndByThemselves(t *testing.T, w *twins) {
	ctx := context.Background()
	before := w.h.dump(t, w.backend)
	report := func(was, value string, left time.Duration) {
		t.Helper()
		done, err := w.Change(ctx, &admin.Change{Table: admin.ReportTable, What: "report", Guard: "3", Was: was,
			Set: []admin.TableRecord{{Name: "3", Value: value, Left: left}}})
		if !done || err != nil {
			t.Fatal(done, err)
		}
	}
	longest := strings.Repeat("t", admin.MaxConfigReport)
	report("", longest, time.Minute)
	found, _, err := w.Get(ctx, admin.ReportTable, "3", "4")
	if err != nil || len(found) != 1 || found[0].Value != longest || found[0].Left > time.Minute ||
		found[0].Left < time.Second {
		t.Errorf("the reports are %.300v, %v", found, err)
	}
	report(longest, "last", 300*time.Millisecond)
	set, err := w.SetOverride(ctx, store.Override{Effect: store.OverrideBlock}, 300*time.Millisecond)
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		version, err2 := w.OverrideVersion(ctx)
		last, err3 := w.Value(ctx, admin.ReportTable, "3")
		after := w.h.dump(t, w.backend)
		if err := cmp.Or(err, err2, err3); err != nil || time.Since(began) > time.Minute {
			t.Fatalf("%q and the version %q do not end: %v; left behind: %s", last, version, err, after)
		}
		if version == "" && last == "" && (after == before || !w.h.DropsEnded) {
			break
		}
	}
	if list, version, err := w.Overrides(ctx); len(list) > 0 || version != "" || err != nil {
		t.Errorf("%+v, %q, %v", list, version, err)
	}
	if _, found, err := w.RevokeOverride(ctx, set.ID); found || err != nil {
		t.Errorf("revoked after its end: %v, %v", found, err)
	}
	report("", "theirs", time.Hour)
}

// listsAreBounded checks that the journal keeps so many of its latest texts, in their order.
func listsAreBounded(t *testing.T, w *twins) {
	var written []string
	for i := range admin.JournalKept + 30 {
		written = append(written, fmt.Sprint("entry ", i))
		if err := w.AppendJournal(context.Background(), written[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, most := range []int{-1, 0, 1, 250, admin.JournalKept - 1, admin.JournalKept, math.MaxInt} {
		want := written[len(written)-max(0, min(most, admin.JournalKept)):]
		lines, damaged, err := w.ReadJournal(context.Background(), most)
		same := func(l admin.JournalEntry, text string) bool { return l.Text == text }
		if err != nil || damaged > 0 || !slices.EqualFunc(lines, want, same) {
			t.Errorf("the latest %d are %.200v, %v, want %.200q", most, lines, err, want)
		}
	}
}

// overridesAreBounded fills the table: one more is refused until one has ended.
func overridesAreBounded(t *testing.T, w *twins) {
	ctx := context.Background()
	block := store.Override{Effect: store.OverrideBlock}
	text, _, err := admin.EncodeOverride(&block)
	now := store.InstantOf(w.now)
	full := &admin.Change{Table: admin.OverrideTable, Set: []admin.TableRecord{
		{Value: strings.Repeat("v", admin.OverrideVersionSize),
			Created: now, Ends: now + 3_600_000_000, Left: time.Hour}}}
	for i := range admin.MaxOverrides - 1 {
		full.Set = append(full.Set, admin.TableRecord{Name: fmt.Sprintf("%08d", i), Value: text, Created: now,
			Ends: now + 3_600_000_000, Left: time.Hour})
	}
	w.change(t, full)
	set := func(units int64) error {
		_, err := w.SetOverride(ctx, store.Override{Effect: store.OverrideAdd, Units: units}, time.Minute)
		return err
	}
	if err := cmp.Or(err, set(1), set(1)); err != nil { // the second time it is the same one
		t.Fatal(err)
	}
	before, _ := w.OverrideVersion(ctx)
	if list, version, err := w.Overrides(ctx); err != nil || len(list) != admin.MaxOverrides || version != before {
		t.Errorf("%d overrides of version %q, %v", len(list), version, err)
	}
	if err := set(2); !errors.Is(err, store.ErrRefused) {
		t.Errorf("one more: %v", err)
	}
	w.now = w.now.Add(time.Minute + time.Millisecond)
	version, err := w.OverrideVersion(ctx)
	if err := cmp.Or(err, set(2)); err != nil || version != before {
		t.Errorf("after one has ended version %q is %q, %v", before, version, err)
	}
}

// denialsAreBounded denies thousands of keys in a minute, and checks that the most denied ones are kept, and the total.
// The row of a block stays, however little it denies, and those of shadow limits go first, however much.
func denialsAreBounded(t *testing.T, w *twins) {
	total := int64(0)
	for write := range 20 {
		d := admin.Denials{Now: store.InstantOf(w.now)}
		for i := range admin.MaxDenialRows {
			key := store.Key{Subject: fmt.Sprintf("rare:%d:%d", write, i), Name: "n"}
			row := admin.Denied{Key: key, Count: 1 + int64(i%2), LastAt: d.Now}
			if i < 10 {
				row.Key.Subject, row.Count = fmt.Sprintf("often:%d", i), 3
			}
			if write == 0 && i == 10 {
				row.Key, row.Count, row.Blocked = admin.BlockKey(&store.Override{Effect: store.OverrideBlock}), 1, 1
			} else {
				if i >= 190 {
					row.Key.Name, row.Count = admin.ShadowName+"n", 50
				}
				total += row.Count
			}
			d.Rows = append(d.Rows, row)
		}
		if err := w.AddDenials(context.Background(), d); err != nil {
			t.Fatal(err)
		}
	}
	for last, kept := range map[time.Duration]int{
		time.Minute: admin.DenialsKept, admin.DenialHistory: admin.CoarseDenialsKept} {
		got, err := w.Denials(context.Background(), last)
		all := got.Total()
		for _, row := range got.Shadows {
			all += row.Count
		}
		if err != nil || all != total || got.Exact() || len(got.Rows) > kept || len(got.Rows) < kept/2 {
			t.Fatalf("of %s: %d rows and %d others, %d in all, want %d; %v", last, len(got.Rows), got.Others,
				all, total, err)
		}
		if len(got.Blocks) != 1 || got.Blocks[0].Count != 1 ||
			got.Blocks[0].Key != (store.Key{Subject: "*", Name: "*"}) {
			t.Fatalf("of %s blocks: %+v", last, got.Blocks)
		}
		for i, row := range got.Rows {
			often := strings.HasPrefix(row.Key.Subject, "often:")
			if often != (i < 10) || often && row.Count != 60 || !often && row.Count != 2 {
				t.Fatalf("of %s row %d is %+v", last, i, row)
			}
		}
	}
}
