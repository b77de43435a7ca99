package memorystore

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ store.Journal = (*Store)(nil)

// journal is the journal. The zero value is an empty one.
type journal struct {
	mu      sync.Mutex
	entries []store.JournalEntry
}

// AppendJournal implements [store.Journal].
func (s *Store) AppendJournal(_ context.Context, text string) error {
	if err := cmp.Or(s.check(), store.CheckJournalText(text)); err != nil {
		return err
	}
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	j := &s.journal
	if j.entries = append(j.entries, store.JournalEntry{At: s.clock().Time(), Text: text}); len(j.entries) > store.JournalKept {
		j.entries = slices.Delete(j.entries, 0, 1)
	}
	return nil
}

// ReadJournal implements [store.Journal].
func (s *Store) ReadJournal(_ context.Context, most int) (entries []store.JournalEntry, damaged int, err error) {
	if err := s.check(); err != nil {
		return nil, 0, err
	}
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	all := s.journal.entries
	return slices.Clone(all[max(0, len(all)-max(0, most)):]), 0, nil
}
