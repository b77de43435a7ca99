package memorystore

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

var _ admin.Journal = (*Store)(nil)

// journal is the journal. The zero value is an empty one.
type journal struct {
	mu      sync.Mutex
	entries []admin.JournalEntry
}

// AppendJournal implements [admin.Journal].
func (s *Store) AppendJournal(_ context.Context, text string) error {
	if err := cmp.Or(s.check(), admin.CheckJournalText(text)); err != nil {
		return err
	}
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	j := &s.journal
	if j.entries = append(j.entries, admin.JournalEntry{At: s.clock().Time(), Text: text}); len(j.entries) > admin.JournalKept {
		j.entries = slices.Delete(j.entries, 0, 1)
	}
	return nil
}

// ReadJournal implements [admin.Journal].
func (s *Store) ReadJournal(_ context.Context, most int) (entries []admin.JournalEntry, damaged int, err error) {
	if err := s.check(); err != nil {
		return nil, 0, err
	}
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	all := s.journal.entries
	return slices.Clone(all[max(0, len(all)-max(0, most)):]), 0, nil
}

var _ admin.Identity = (*Store)(nil)

// StoreID implements [admin.Identity].
func (s *Store) StoreID(context.Context) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	if id := s.id.Load(); id != nil {
		return *id, nil
	}
	return "", nil
}

// EnsureStoreID implements [admin.Identity].
func (s *Store) EnsureStoreID(ctx context.Context) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	id := admin.NewStoreID()
	s.id.CompareAndSwap(nil, &id)
	return s.StoreID(ctx)
}
