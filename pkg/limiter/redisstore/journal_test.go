package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The journal is a stream that never expires. It is read a page of 250 at a time, whatever the numbers of
// its entries are, each entry once.
func TestTheJournalIsAStream(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	backend := newStore(t, server.Client())
	const key = "rl!{audit}"
	must(t, backend.AppendJournal(t.Context(), "by the store"))
	if ttl := server.Do("PTTL", key); ttl != int64(-1) {
		t.Errorf("it expires in %v ms", ttl)
	}
	if entries, _, err := backend.ReadJournal(t.Context(), 9); err != nil || len(entries) != 1 || entries[0].Text != "by the store" ||
		time.Since(entries[0].At).Abs() > time.Hour {
		t.Errorf("%+v, %v", entries, err)
	}
	server.Do("DEL", key)
	// Entries of one millisecond, and then one in each.
	var want []admin.JournalEntry
	for i := range 501 {
		ms, sequence := 1_795_294_331_000, i
		if i >= 251 {
			ms, sequence = ms+i-250, 0
		}
		text := fmt.Sprint("entry ", i)
		if got := server.Do("XADD", key, fmt.Sprintf("%d-%d", ms, sequence), "text", text); got == nil {
			t.Fatalf("entry %d was not added", i)
		}
		want = append(want, admin.JournalEntry{At: time.UnixMilli(int64(ms)).UTC(), Text: text})
	}
	for _, most := range []int{-1, 0, 1, 249, 250, 251, 499, 500, 501, 502} {
		entries, damaged, err := backend.ReadJournal(t.Context(), most)
		if latest := want[len(want)-min(max(0, most), len(want)):]; err != nil || damaged != 0 || !slices.Equal(entries, latest) {
			t.Errorf("the latest %d: %d entries, %d damaged, %v", most, len(entries), damaged, err)
		}
	}
}

// What somebody else has added is counted as damaged, and does not hide what is before it.
func TestForeignEntriesOfTheJournal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	backend := newStore(t, server.Client())
	const key = "rl!{audit}"
	for i, words := range [][]any{
		{"text", "first"}, {"other", "a field"}, {"text", "two", "and", "more"}, {"text", ""}, {"text", "\xff"},
		{"text", strings.Repeat("x", admin.MaxJournalText+1)}, {"text", strings.Repeat("x", admin.MaxJournalText)},
	} {
		server.Do(append([]any{"XADD", key, fmt.Sprintf("%d-0", 1_795_294_331_000+i)}, words...)...)
	}
	server.Do("XADD", key, fmt.Sprintf("%d-0", store.Instant(store.MaxInstant)/1000), "text", "the last instant")
	server.Do("XADD", key, fmt.Sprintf("%d-0", store.Instant(store.MaxInstant)/1000+1), "text", "beyond all")
	entries, damaged, err := backend.ReadJournal(t.Context(), 100)
	if err != nil || damaged != 6 || len(entries) != 3 || entries[0].Text != "first" || len(entries[1].Text) != admin.MaxJournalText ||
		entries[2].Text != "the last instant" {
		t.Errorf("%d entries, %d damaged, %v", len(entries), damaged, err)
	}
	server.Do("DEL", key)
	server.Do("SET", key, "x")
	if _, _, err := backend.ReadJournal(t.Context(), 1); !errors.Is(err, store.ErrForeign) || !strings.Contains(err.Error(), key) {
		t.Errorf("read a string: %v", err)
	}
	if err := backend.AppendJournal(t.Context(), "x"); !errors.Is(err, store.ErrForeign) || server.Do("GET", key) != "x" {
		t.Errorf("wrote to a string: %v", err)
	}
}
