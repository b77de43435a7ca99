package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// journal runs the laws of an [admin.Journal], if the stores have one.
func journal(t *testing.T, h Harness) {
	if _, has := admin.JournalOf(h.New(t, nil)); !has {
		return
	}
	t.Run("IsReadBack", func(t *testing.T) { t.Parallel(); journalIsReadBack(t, h) })
	t.Run("IsBounded", func(t *testing.T) { t.Parallel(); journalIsBounded(t, h) })
	t.Run("IsChecked", func(t *testing.T) { t.Parallel(); journalIsChecked(t, h) })
}

// readJournal reads the latest texts, and checks that none is damaged.
func readJournal(t *testing.T, j admin.Journal, most int) (texts []string) {
	t.Helper()
	entries, damaged, err := j.ReadJournal(context.Background(), most)
	if err != nil || damaged != 0 {
		t.Fatalf("%d damaged, %v", damaged, err)
	}
	for i, entry := range entries {
		if entry.At.IsZero() || i > 0 && entry.At.Before(entries[i-1].At) {
			t.Errorf("entry %d is of %s", i, entry.At)
		}
		texts = append(texts, entry.Text)
	}
	return texts
}

// journalIsReadBack checks the latest entries and their order, and that the limits do not contain them.
func journalIsReadBack(t *testing.T, h Harness) {
	backend := h.New(t, nil)
	j, _ := admin.JournalOf(backend)
	ctx := context.Background()
	if texts := readJournal(t, j, 10); len(texts) != 0 {
		t.Errorf("a new one holds %q", texts)
	}
	written := []string{"{}", "two\nlines\x00", strings.Repeat("é", admin.MaxJournalText/2)}
	for i := range 600 {
		written = append(written, fmt.Sprint("entry ", i))
	}
	for _, text := range written {
		if err := j.AppendJournal(ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	for _, most := range []int{-1, 0, 1, 2, 250, 251, 602, 603, 604, admin.JournalKept, math.MaxInt} {
		want := written[len(written)-max(0, min(most, len(written))):]
		if texts := readJournal(t, j, most); fmt.Sprint(texts) != fmt.Sprint(want) {
			t.Errorf("the latest %d are %.200q, want %.200q", most, texts, want)
		}
	}
	for entry, err := range scan(ctx, backend, admin.Query{Subjects: patternOfAll(t)}) {
		t.Errorf("a scan finds %+v, %v", entry, err)
	}
}

// journalIsBounded writes more entries than are kept.
func journalIsBounded(t *testing.T, h Harness) {
	j, _ := admin.JournalOf(h.New(t, nil))
	const more = 30
	for i := range admin.JournalKept + more {
		if err := j.AppendJournal(context.Background(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	texts := readJournal(t, j, math.MaxInt)
	if len(texts) != admin.JournalKept || texts[0] != fmt.Sprint(more) || texts[len(texts)-1] != fmt.Sprint(admin.JournalKept+more-1) {
		t.Errorf("%d are kept, from %.100q on", len(texts), texts)
	}
}

// journalIsChecked checks that invalid texts are refused.
func journalIsChecked(t *testing.T, h Harness) {
	j, _ := admin.JournalOf(h.New(t, nil))
	for _, text := range []string{"", "\xff", strings.Repeat("x", admin.MaxJournalText+1)} {
		if err := j.AppendJournal(context.Background(), text); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if texts := readJournal(t, j, 10); len(texts) != 0 {
		t.Errorf("it holds %.50q", texts)
	}
}
