package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// published runs the laws of an [admin.ConfigTable], if the stores have one.
func published(t *testing.T, h Harness) {
	if _, has := admin.ConfigTableOf(h.New(t, nil)); !has {
		return
	}
	t.Run("IsReadBack", func(t *testing.T) { t.Parallel(); configIsReadBack(t, h) })
	t.Run("OneOfManyPublishes", func(t *testing.T) { t.Parallel(); configIsPublishedByOne(t, h) })
	t.Run("IsBounded", func(t *testing.T) { t.Parallel(); configIsBounded(t, h) })
	t.Run("IsChecked", func(t *testing.T) { t.Parallel(); configIsChecked(t, h) })
	t.Run("Reports", func(t *testing.T) { t.Parallel(); configIsReported(t, h) })
}

// newConfig returns a new store's table.
func newConfig(t *testing.T, h Harness) (admin.ConfigTable, store.Store) {
	t.Helper()
	backend := h.New(t, nil)
	table, has := admin.ConfigTableOf(backend)
	if !has {
		t.Fatal("one store has a table, and another has none")
	}
	return table, backend
}

// publish makes a change that has to succeed.
func publish(t *testing.T, table admin.ConfigTable, c admin.ConfigChange) {
	t.Helper()
	if done, err := table.PublishConfig(context.Background(), c); err != nil || !done {
		t.Fatalf("version %d: %t, %v", c.Version, done, err)
	}
}

// configIsReadBack checks what a change writes, that one for another head changes nothing, and that reading writes
// nothing.
func configIsReadBack(t *testing.T, h Harness) {
	ctx := context.Background()
	table, backend := newConfig(t, h)
	empty := h.dump(t, backend)
	head, err := table.ConfigHead(ctx)
	record, err2 := table.ConfigVersion(ctx, 1)
	lines, damaged, err3 := table.ConfigHistory(ctx, 10)
	reports, err4 := table.ConfigReports(ctx)
	if head != "" || record != "" || len(lines) != 0 || damaged != 0 || len(reports) != 0 || errors.Join(err, err2, err3, err4) != nil {
		t.Errorf("a new one has %q, %q, %v, %v: %v", head, record, lines, reports, errors.Join(err, err2, err3, err4))
	}
	if h.dump(t, backend) != empty {
		t.Error("reading writes")
	}
	large := strings.Repeat("\xff\x00é", admin.MaxConfigRecord/4)
	publish(t, table, admin.ConfigChange{Head: "one", Version: 1, Record: large, Line: "first"})
	longest := strings.Repeat("h", admin.MaxConfigHead)
	publish(t, table, admin.ConfigChange{Was: "one", Head: longest, Version: 2, Record: "b", Line: "second"})
	publish(t, table, admin.ConfigChange{Was: longest, Head: "three", Line: "third", Drop: []int64{2, 7}})
	before := h.dump(t, backend)
	for _, was := range []string{"", "one", "thre", "three "} {
		if done, err := table.PublishConfig(ctx, admin.ConfigChange{Was: was, Head: "x", Version: 1, Record: "x", Line: "x",
			Drop: []int64{1}}); done || err != nil {
			t.Errorf("a change for the head %q: %t, %v", was, done, err)
		}
	}
	if h.dump(t, backend) != before {
		t.Error("a change for another head writes")
	}
	if head, err := table.ConfigHead(ctx); head != "three" || err != nil {
		t.Errorf("the head is %q, %v", head, err)
	}
	for number, want := range map[int64]string{1: large, 2: "", 3: ""} {
		if record, err := table.ConfigVersion(ctx, number); record != want || err != nil {
			t.Errorf("version %d has %d bytes, %v", number, len(record), err)
		}
	}
	for most, want := range map[int]string{-1: "", 0: "", 1: "third", 2: "second third", 9: "first second third"} {
		lines, damaged, err := table.ConfigHistory(ctx, most)
		var texts []string
		for _, line := range lines {
			texts = append(texts, line.Text)
		}
		if got := strings.Join(texts, " "); got != want || damaged != 0 || err != nil {
			t.Errorf("the latest %d lines are %q, %d damaged, %v", most, got, damaged, err)
		}
	}
	for entry, err := range scan(ctx, backend, admin.Query{Subjects: patternOfAll(t)}) {
		t.Errorf("a scan finds %+v, %v", entry, err)
	}
}

// configIsPublishedByOne lets several publish for the same head at once: one succeeds.
func configIsPublishedByOne(t *testing.T, h Harness) {
	table, _ := newConfig(t, h)
	was := ""
	for round := range 5 {
		var together sync.WaitGroup
		var winners atomic.Int64
		heads := make([]string, 8)
		for i := range heads {
			together.Go(func() {
				head := fmt.Sprint("head ", round, " ", i)
				done, err := table.PublishConfig(context.Background(), admin.ConfigChange{Was: was, Head: head, Version: int64(round + 1),
					Record: head, Line: head})
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
		head, err := table.ConfigHead(context.Background())
		record, err2 := table.ConfigVersion(context.Background(), int64(round+1))
		if winners.Load() != 1 || head != was || record != was || errors.Join(err, err2) != nil {
			t.Fatalf("%d published at once; the head is %q, and the record %q", winners.Load(), head, record)
		}
	}
	if lines, _, err := table.ConfigHistory(context.Background(), 100); len(lines) != 5 || err != nil {
		t.Errorf("the history has %d lines, %v", len(lines), err)
	}
}

// configIsBounded writes more lines than are kept.
func configIsBounded(t *testing.T, h Harness) {
	table, _ := newConfig(t, h)
	const more = 5
	was := ""
	for i := range admin.ConfigHistoryKept + more {
		head := fmt.Sprint(i)
		publish(t, table, admin.ConfigChange{Was: was, Head: head, Line: head})
		was = head
	}
	lines, _, err := table.ConfigHistory(context.Background(), 2*admin.ConfigHistoryKept)
	if err != nil || len(lines) != admin.ConfigHistoryKept || lines[0].Text != fmt.Sprint(more) {
		t.Errorf("%d lines are kept, %v", len(lines), err)
	}
}

// configIsChecked checks that what is out of bounds is refused and changes nothing.
func configIsChecked(t *testing.T, h Harness) {
	ctx := context.Background()
	table, backend := newConfig(t, h)
	before := h.dump(t, backend)
	for i, c := range []admin.ConfigChange{
		{Line: "l"},
		{Head: strings.Repeat("h", admin.MaxConfigHead+1), Line: "l"},
		{Head: "h"},
		{Head: "h", Line: "\xff"},
		{Head: "h", Line: "l", Version: 1},
		{Head: "h", Line: "l", Record: "r"},
		{Head: "h", Line: "l", Version: -1, Record: "r"},
		{Head: "h", Line: "l", Version: 1, Record: strings.Repeat("r", admin.MaxConfigRecord+1)},
		{Head: "h", Line: "l", Drop: make([]int64, admin.ConfigHistoryKept+1)},
	} {
		if done, err := table.PublishConfig(ctx, c); done || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("change %d: %t, %v", i, done, err)
		}
	}
	id := strings.Repeat("a", admin.ConfigIDSize)
	for i, r := range []admin.ConfigReport{
		{ID: id, Text: "t"},
		{ID: id, Text: "t", Left: admin.MaxConfigReportTime + 1},
		{ID: id, Left: time.Second},
		{ID: id, Text: "\xff", Left: time.Second},
		{ID: id[1:], Text: "t", Left: time.Second},
		{ID: id[1:] + " ", Text: "t", Left: time.Second},
		{Place: -1, ID: id, Text: "t", Left: time.Second},
		{Place: admin.ConfigPlaces, ID: id, Text: "t", Left: time.Second},
		{ID: id, Text: strings.Repeat("t", admin.MaxConfigReport-admin.ConfigIDSize+1), Left: time.Second},
	} {
		if free, err := table.ReportConfig(ctx, r); free || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("report %d: %t, %v", i, free, err)
		}
	}
	if h.dump(t, backend) != before {
		t.Error("what is refused was written")
	}
}

// configIsReported checks that a place belongs to one process until its report ends.
func configIsReported(t *testing.T, h Harness) {
	ctx := context.Background()
	table, backend := newConfig(t, h)
	one, other := strings.Repeat("a", admin.ConfigIDSize), strings.Repeat("b", admin.ConfigIDSize)
	longest := strings.Repeat("t", admin.MaxConfigReport-admin.ConfigIDSize)
	for i, step := range []struct {
		report admin.ConfigReport
		free   bool
	}{
		{admin.ConfigReport{Place: 3, ID: one, Text: "first", Left: time.Hour}, true},
		{admin.ConfigReport{Place: 3, ID: other, Text: "theirs", Left: time.Hour}, false},
		{admin.ConfigReport{Place: admin.ConfigPlaces - 1, ID: other, Text: longest, Left: time.Hour}, true},
		{admin.ConfigReport{Place: 3, ID: one, Text: "second", Left: time.Minute}, true},
	} {
		if free, err := table.ReportConfig(ctx, step.report); free != step.free || err != nil {
			t.Errorf("report %d: %t, %v", i, free, err)
		}
	}
	reports, err := table.ConfigReports(ctx)
	found := map[int]admin.ConfigReport{}
	for _, r := range reports {
		found[r.Place] = r
	}
	if err != nil || len(reports) != 2 || found[3].ID != one || found[3].Text != "second" || found[3].Left > time.Minute ||
		found[admin.ConfigPlaces-1].ID != other || found[admin.ConfigPlaces-1].Text != longest {
		t.Errorf("the reports are %+v, %v", reports, err)
	}
	last := admin.ConfigReport{Place: 3, ID: one, Text: "last", Left: time.Millisecond}
	if free, err := table.ReportConfig(ctx, last); !free || err != nil {
		t.Errorf("the last report: %t, %v", free, err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		reports, err := table.ConfigReports(ctx)
		if err == nil && len(reports) == 1 {
			break
		} else if err != nil || time.Now().After(end) {
			t.Fatalf("a report of a millisecond does not end: %+v, %v", reports, err)
		}
	}
	theirs := admin.ConfigReport{Place: 3, ID: other, Text: "theirs", Left: time.Hour}
	if free, err := table.ReportConfig(ctx, theirs); !free || err != nil {
		t.Errorf("a place that is free again: %t, %v", free, err)
	}
	for entry, err := range scan(ctx, backend, admin.Query{Subjects: patternOfAll(t)}) {
		t.Errorf("a scan finds %+v, %v", entry, err)
	}
}
