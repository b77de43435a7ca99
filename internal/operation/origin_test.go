package operation

import (
	"errors"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A backup goes back into the store that it came from, and into no other unless that is
// asked for. The first reset gives the store its id, and writes it into the backup.
func TestRestoreIntoItsOwnStore(t *testing.T) {
	s := newSite(t)
	const address = "redis a:1 db 0"
	s.Address = address
	s.take(t, "a", 3)
	path := s.reset(t)
	id, _ := s.memory.StoreID(t.Context())
	b := s.opened(t, path)
	if !admin.IsStoreID(id) || b.StoreID != id || b.Address != address || b.Records != 1 {
		t.Fatalf("the store has the id %q, and the backup is %+v", id, b.Header)
	}
	result, err := s.Restore(t.Context(), &RestorePlan{Backup: b}, &watcher{})
	if err != nil || result.Restored != 1 {
		t.Errorf("into its own store: %+v, %v", result, err)
	}
	s.Address = "redis b:1 db 0"
	var other *otherStoreError
	_, err = s.Restore(t.Context(), &RestorePlan{Backup: b}, &watcher{})
	if !errors.As(err, &other) || !other.MaybeCopy || !errors.Is(err, store.ErrInvalid) || len(s.log.entries) > 2 {
		t.Errorf("at another address with the same id: %v", err)
	}
	s.memory.Close()
	var unknown *originUnknownError
	if err := s.CheckOrigin(t.Context(), b); !errors.As(err, &unknown) || !errors.Is(err, store.ErrClosed) {
		t.Errorf("where the store does not answer: %v", err)
	}
	s.memory = newSite(t).memory
	s.Store = s.memory
	if _, err = s.Restore(t.Context(), &RestorePlan{Backup: b}, &watcher{}); !errors.As(err, &other) || other.MaybeCopy {
		t.Errorf("in another store: %v", err)
	}
	if id, _ := s.memory.StoreID(t.Context()); id != "" {
		t.Error("the refusal has given the store an id")
	}
	w := &watcher{}
	result, err = s.Restore(t.Context(), &RestorePlan{Backup: b, IntoOther: other}, w)
	if err != nil || result.Restored != 1 || w.questions[0].Text != other.Error()+". Restore 1 key into it" {
		t.Errorf("in another store, as was asked: %+v, %v", result, err)
	}
	_, err = s.Restore(t.Context(), &RestorePlan{Backup: b}, &watcher{})
	if other = nil; !errors.As(err, &other) || !strings.Contains(err.Error(), id[:8]+"…") ||
		!strings.Contains(err.Error(), other.HereID[:8]+"…") {
		t.Errorf("two ids: %v", err)
	}
}
