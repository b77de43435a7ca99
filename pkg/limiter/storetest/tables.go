package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// tables runs the laws of an [admin.SideTable], if the stores have one.
func tables(t *testing.T, h Harness) {
	if _, has := admin.TablesOf(h.New(t, nil)); !has {
		return
	}
	for name, law := range map[string]func(*testing.T, Harness){
		"ReadBack": tablesAreReadBack, "OneOfManyChanges": tablesAreChangedByOne, "ReportsEnd": reportsEnd, "Checked": tablesAreChecked,
		"Lists": listsAreBounded, "Identity": identityIsOne, "MatchTheReference": tablesMatchTheReference,
		"OverridesAreBounded": overridesAreBounded, "OverridesEnd": overridesEndByThemselves,
		"OverridesAreSetTogether": overridesAreSetTogether, "DenialsAreBounded": denialsAreBounded,
		"LetThroughIsBounded": letThroughIsBounded, "SinceWhen": sinceWhen,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); law(t, h) })
	}
}

// newTables returns the tables of a new store, which no scan finds.
func newTables(t *testing.T, h Harness, clock func() time.Time) (*admin.Tables, store.Store) {
	t.Helper()
	backend := h.New(t, clock)
	tables, has := admin.TablesOf(backend)
	if !has {
		t.Fatal("one store has tables, and another has none")
	}
	t.Cleanup(func() {
		for entry, err := range scan(context.Background(), backend, admin.Query{Subjects: patternOfAll(t)}) {
			if !errors.Is(err, store.ErrClosed) {
				t.Errorf("a scan finds %+v, %v", entry, err)
			}
		}
	})
	return tables, backend
}

// changed makes a change, and checks whether it is made.
func changed(t *testing.T, tables *admin.Tables, want bool, c admin.Change) {
	t.Helper()
	c.What = "change"
	if done, err := tables.Change(context.Background(), &c); err != nil || done != want {
		t.Fatalf("%.200v: %t, %v", c, done, err)
	}
}

// texts returns the latest texts of a list, and checks that none is damaged.
func texts(t *testing.T, tables *admin.Tables, l admin.List, most int) (texts []string) {
	t.Helper()
	lines, damaged, err := tables.Lines(context.Background(), l, most)
	if err != nil || damaged != 0 {
		t.Fatalf("%d damaged, %v", damaged, err)
	}
	for i, line := range lines {
		if line.At.IsZero() || i > 0 && line.At.Before(lines[i-1].At) {
			t.Errorf("line %d is of %s", i, line.At)
		}
		texts = append(texts, line.Text)
	}
	return texts
}

// tablesAreReadBack checks what a change writes, that one whose guard is another now changes nothing, and that reading
// writes nothing.
func tablesAreReadBack(t *testing.T, h Harness) {
	tables, backend := newTables(t, h, nil)
	record := func(table admin.Table, name, want string) {
		t.Helper()
		if got, err := tables.Value(context.Background(), table, name); got != want || err != nil {
			t.Errorf("%s has %.100q under %q, %v; want %.100q", table, got, name, err, want)
		}
	}
	empty := h.dump(t, backend)
	for _, table := range []admin.Table{admin.IdentityTable, admin.OverrideTable, admin.ConfigTable, admin.ReportTable} {
		record(table, "", "")
	}
	record(admin.ConfigTable, "1", "")
	record(admin.OverrideTable, "00000000", "")
	if all, version, err := tables.Overrides(context.Background()); len(all) > 0 || version != "" || err != nil {
		t.Errorf("a new table has overrides %+v of version %q, %v", all, version, err)
	}
	if all := append(texts(t, tables, admin.JournalList, 9), texts(t, tables, admin.HistoryList, 9)...); len(all) > 0 {
		t.Errorf("new lists have %q", all)
	}
	if h.dump(t, backend) != empty {
		t.Error("reading writes")
	}
	config := func(want bool, was, line string, drop []string, set ...string) {
		t.Helper()
		c := admin.Change{Table: admin.ConfigTable, Was: was, Line: line, Drop: drop}
		for i := 0; i < len(set); i += 2 {
			c.Set = append(c.Set, admin.TableRecord{Name: set[i], Value: set[i+1]})
		}
		changed(t, tables, want, c)
	}
	large, longest := strings.Repeat("\xff\x00é", admin.MaxConfigRecord/4), strings.Repeat("h", admin.MaxConfigHead)
	config(true, "", "first", nil, "1", large, "", "one")
	config(true, "one", "second", nil, "2", "b", "", longest)
	config(true, longest, "third", []string{"2", "7"}, "3", "c", "", "three")
	before := h.dump(t, backend)
	for _, was := range []string{"", "one", "thre", "three "} {
		config(false, was, "x", []string{"1"}, "1", "x", "", "x")
	}
	if h.dump(t, backend) != before {
		t.Error("a change for another head writes")
	}
	for name, want := range map[string]string{"": "three", "1": large, "2": "", "3": "c", "4": ""} {
		record(admin.ConfigTable, name, want)
	}
	for most, want := range map[int]string{-1: "", 0: "", 1: "third", 2: "second third", 9: "first second third"} {
		if got := strings.Join(texts(t, tables, admin.HistoryList, most), " "); got != want {
			t.Errorf("the latest %d lines are %q", most, got)
		}
	}
}

// tablesAreChangedByOne lets several change a table at once: one succeeds.
func tablesAreChangedByOne(t *testing.T, h Harness) {
	tables, _ := newTables(t, h, nil)
	was := ""
	for round := range 5 {
		var together sync.WaitGroup
		var winners atomic.Int64
		heads := make([]string, 8)
		for i := range heads {
			together.Go(func() {
				head := fmt.Sprint("head ", round, " ", i)
				done, err := tables.Change(context.Background(), &admin.Change{Table: admin.ConfigTable, What: "change", Was: was,
					Line: head, Set: []admin.TableRecord{{Name: "1", Value: head}, {Value: head}}})
				if err != nil {
					t.Error(err)
				}
				if done {
					winners.Add(1)
					heads[i] = head
				}
			})
		}
		together.Wait()
		was = strings.Join(heads, "")
		head, err := tables.Value(context.Background(), admin.ConfigTable, "")
		record, err2 := tables.Value(context.Background(), admin.ConfigTable, "1")
		if winners.Load() != 1 || head != was || record != was || errors.Join(err, err2) != nil {
			t.Fatalf("%d changed it at once; the head is %q, and the record %q", winners.Load(), head, record)
		}
	}
	if lines := texts(t, tables, admin.HistoryList, 100); len(lines) != 5 {
		t.Errorf("the history is %q", lines)
	}
}

// reportsEnd checks that a record that is kept for a while ends, and that its place is free then.
func reportsEnd(t *testing.T, h Harness) {
	tables, _ := newTables(t, h, nil)
	report := func(want bool, name, was, value string, left time.Duration) {
		t.Helper()
		changed(t, tables, want, admin.Change{Table: admin.ReportTable, Guard: name, Was: was,
			Set: []admin.TableRecord{{Name: name, Value: value, Left: left}}})
	}
	longest := strings.Repeat("t", admin.MaxConfigReport)
	report(true, "3", "", "first", time.Hour)
	report(false, "3", "", "theirs", time.Hour)
	report(true, "499", "", longest, time.Hour)
	report(true, "3", "first", "second", time.Minute)
	found, _, err := tables.Get(context.Background(), admin.ReportTable, "3", "4", "499")
	if err != nil || len(found) != 2 || found[0].Name != "3" || found[0].Value != "second" || found[0].Left > time.Minute ||
		found[0].Left < time.Second || found[1].Value != longest || found[1].Left <= time.Minute {
		t.Errorf("the reports are %.300v, %v", found, err)
	}
	report(true, "3", "second", "last", time.Millisecond)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		last, err := tables.Value(context.Background(), admin.ReportTable, "3")
		if err == nil && last == "" {
			break
		} else if err != nil || time.Now().After(end) {
			t.Fatalf("a report of a millisecond does not end: %q, %v", last, err)
		}
	}
	report(true, "3", "", "theirs", time.Hour)
}

// tablesAreChecked checks that what is out of bounds is refused and changes nothing.
func tablesAreChecked(t *testing.T, h Harness) {
	tables, backend := newTables(t, h, nil)
	before := h.dump(t, backend)
	of := func(n int) []admin.TableRecord { return []admin.TableRecord{{Value: strings.Repeat("v", n)}} }
	for i, c := range []admin.Change{
		{Table: admin.ConfigTable, Set: of(admin.MaxConfigHead + 1)},
		{Table: admin.ConfigTable, Set: []admin.TableRecord{{Name: "1", Value: strings.Repeat("r", admin.MaxConfigRecord+1)}}},
		{Table: admin.ReportTable, Set: of(admin.MaxConfigReport + 1)},
		{Table: admin.IdentityTable, Set: of(33)},
		{Table: admin.IdentityTable, Set: of(0)},
		{Table: admin.ConfigTable, Set: of(1), Line: "\xff"},
		{Table: admin.ConfigTable, Set: of(1), Line: strings.Repeat("l", admin.MaxJournalText+1)},
	} {
		if done, err := tables.Change(context.Background(), &c); done || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("change %d: %t, %v", i, done, err)
		}
	}
	for _, text := range []string{"", "\xff", strings.Repeat("x", admin.MaxJournalText+1)} {
		if err := tables.AppendJournal(context.Background(), text); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if h.dump(t, backend) != before {
		t.Error("what is refused was written")
	}
}

// listsAreBounded checks the latest texts of the journal and their order, and that it keeps so many.
func listsAreBounded(t *testing.T, h Harness) {
	tables, _ := newTables(t, h, nil)
	written := []string{"{}", "two\nlines\x00", strings.Repeat("é", admin.MaxJournalText/2)}
	for i := range admin.JournalKept + 30 {
		written = append(written, fmt.Sprint("entry ", i))
	}
	for i, text := range written {
		if err := tables.AppendJournal(context.Background(), text); err != nil {
			t.Fatal(err)
		}
		if i == 2 && !slices.Equal(texts(t, tables, admin.JournalList, 9), written[:3]) {
			t.Error("the first entries are not read back")
		}
	}
	for _, most := range []int{-1, 0, 1, 2, 250, 251, 602, admin.JournalKept - 1, admin.JournalKept, math.MaxInt} {
		want := written[len(written)-max(0, min(most, admin.JournalKept)):]
		if got := texts(t, tables, admin.JournalList, most); !slices.Equal(got, want) {
			t.Errorf("the latest %d are %.200q, want %.200q", most, got, want)
		}
	}
}

// identityIsOne checks that all callers get the same id, and other stores have other ids.
func identityIsOne(t *testing.T, h Harness) {
	tables, _ := newTables(t, h, nil)
	ids := make([]string, 20)
	var together sync.WaitGroup
	for i := range ids {
		together.Go(func() {
			var err error
			if ids[i], err = tables.EnsureStoreID(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	if same := slices.Compact(ids); len(same) != 1 || !admin.IsStoreID(same[0]) {
		t.Fatalf("several at once get the ids %q", same)
	}
	if id, err := tables.StoreID(context.Background()); err != nil || id != ids[0] {
		t.Errorf("its id is %q (%v), and was made as %q", id, err, ids[0])
	}
	other, _ := newTables(t, h, nil)
	if id, err := other.EnsureStoreID(context.Background()); err != nil || id == ids[0] {
		t.Errorf("another store has the id %q (%v), too", id, err)
	}
}
