package connect

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ReadOnly wraps the store of a context so that nothing can write to it. A write fails with a [store.ErrInvalid]
// that names the context.
func ReadOnly(backend Store, name string) Store { return &readOnlyStore{backend, name} }

// readOnlyStore has every method of a store rather than embedding one, so that a new method of the interface has to
// be considered here.
type readOnlyStore struct {
	store Store
	name  string
}

// ReadOnlyError says that a context is read-only. It is a [store.ErrInvalid].
type ReadOnlyError struct {
	Context string
	What    string // the refused operation, such as "reset"
}

// Error names the context and the refused operation.
func (e *ReadOnlyError) Error() string {
	article := "a"
	if strings.ContainsAny(e.What[:1], "aeiou") {
		article = "an"
	}
	return fmt.Sprintf("context %q is read-only; %s %s writes, so it was not done", e.Context, article, e.What)
}

// Is makes every ReadOnlyError a [store.ErrInvalid].
func (e *ReadOnlyError) Is(target error) bool { return target == store.ErrInvalid }

// Decide passes only peeks.
func (s *readOnlyStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if op != store.Peek {
		return &ReadOnlyError{s.name, op.String()}
	}
	return s.store.Decide(ctx, op, reqs, decisions)
}

// Scan implements admin.Keyspace.
func (s *readOnlyStore) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return s.store.Scan(ctx, q)
}

// Delete refuses.
func (s *readOnlyStore) Delete(context.Context, ...admin.Record) (int, []admin.Record, error) {
	return 0, nil, &ReadOnlyError{s.name, "deletion"}
}

// Adjust refuses.
func (s *readOnlyStore) Adjust(context.Context, ...admin.Adjustment) ([]admin.Adjusted, error) {
	return nil, &ReadOnlyError{s.name, store.Adjust.String()}
}

// Import refuses.
func (s *readOnlyStore) Import(context.Context, bool, ...admin.Record) ([]admin.ImportOutcome, error) {
	return nil, &ReadOnlyError{s.name, "import"}
}

// StoreID implements [admin.Identity].
func (s *readOnlyStore) StoreID(ctx context.Context) (string, error) {
	of, has := admin.IdentityOf(s.store)
	if !has {
		return "", nil
	}
	return of.StoreID(ctx)
}

// EnsureStoreID refuses.
func (s *readOnlyStore) EnsureStoreID(context.Context) (string, error) {
	return "", &ReadOnlyError{s.name, "write of the store's id"}
}

// Denials implements [admin.DenialTable].
func (s *readOnlyStore) Denials(ctx context.Context, last time.Duration) (admin.Denials, error) {
	table, has := admin.DenialTableOf(s.store)
	if !has {
		return admin.Denials{}, store.Invalidf("this store keeps no denials")
	}
	return table.Denials(ctx, last)
}

// AddDenials refuses.
func (s *readOnlyStore) AddDenials(context.Context, admin.Denials) error {
	return &ReadOnlyError{s.name, "count of denials"}
}

// AppendJournal refuses.
func (s *readOnlyStore) AppendJournal(context.Context, string) error {
	return &ReadOnlyError{s.name, "write to the journal"}
}

// ReadJournal implements [admin.Journal].
func (s *readOnlyStore) ReadJournal(ctx context.Context, most int) ([]admin.JournalEntry, int, error) {
	journal, has := admin.JournalOf(s.store)
	if !has {
		return nil, 0, store.Invalidf("this store keeps no journal")
	}
	return journal.ReadJournal(ctx, most)
}

// OverrideVersion implements [admin.OverrideTable].
func (s *readOnlyStore) OverrideVersion(ctx context.Context) (string, error) {
	table, err := s.overrides()
	if err != nil {
		return "", err
	}
	return table.OverrideVersion(ctx)
}

// Overrides implements [admin.OverrideTable].
func (s *readOnlyStore) Overrides(ctx context.Context) ([]store.Override, string, error) {
	table, err := s.overrides()
	if err != nil {
		return nil, "", err
	}
	return table.Overrides(ctx)
}

func (s *readOnlyStore) overrides() (admin.OverrideTable, error) {
	table, has := admin.OverrideTableOf(s.store)
	if !has {
		return nil, store.Invalidf("this store keeps no overrides")
	}
	return table, nil
}

// SetOverride refuses.
func (s *readOnlyStore) SetOverride(context.Context, store.Override, time.Duration) (store.Override, error) {
	return store.Override{}, &ReadOnlyError{s.name, "override"}
}

// RevokeOverride refuses.
func (s *readOnlyStore) RevokeOverride(context.Context, string) (store.Override, bool, error) {
	return store.Override{}, false, &ReadOnlyError{s.name, "revocation of an override"}
}

// ConfigHead implements [admin.ConfigTable].
func (s *readOnlyStore) ConfigHead(ctx context.Context) (string, error) {
	table, err := s.configs()
	if err != nil {
		return "", err
	}
	return table.ConfigHead(ctx)
}

// ConfigVersion implements [admin.ConfigTable].
func (s *readOnlyStore) ConfigVersion(ctx context.Context, number int64) (string, error) {
	table, err := s.configs()
	if err != nil {
		return "", err
	}
	return table.ConfigVersion(ctx, number)
}

// ConfigHistory implements [admin.ConfigTable].
func (s *readOnlyStore) ConfigHistory(ctx context.Context, most int) ([]admin.JournalEntry, int, error) {
	table, err := s.configs()
	if err != nil {
		return nil, 0, err
	}
	return table.ConfigHistory(ctx, most)
}

// PublishConfig refuses.
func (s *readOnlyStore) PublishConfig(context.Context, admin.ConfigChange) (bool, error) {
	return false, &ReadOnlyError{s.name, "publication"}
}

// ReportConfig refuses.
func (s *readOnlyStore) ReportConfig(context.Context, admin.ConfigReport) (bool, error) {
	return false, &ReadOnlyError{s.name, "report"}
}

// ConfigReports implements [admin.ConfigTable].
func (s *readOnlyStore) ConfigReports(ctx context.Context) ([]admin.ConfigReport, error) {
	table, err := s.configs()
	if err != nil {
		return nil, err
	}
	return table.ConfigReports(ctx)
}

func (s *readOnlyStore) configs() (admin.ConfigTable, error) {
	table, has := admin.ConfigTableOf(s.store)
	if !has {
		return nil, store.Invalidf("this store keeps no published configurations")
	}
	return table, nil
}

// Close implements store.Store.
func (s *readOnlyStore) Close() error { return s.store.Close() }
