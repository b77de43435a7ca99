package connect

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// ReadOnly wraps the store of a context so that nothing can write to it. What
// would is a [limiter.ErrInvalid] that names the context.
func ReadOnly(store Store, name string) Store { return &readOnlyStore{store, name} }

// readOnlyStore names each method of a store rather than embedding one, so that
// a method added to the interface has to be judged here.
type readOnlyStore struct {
	store Store
	name  string
}

// ReadOnlyError says that a context may not be written to. It is a [limiter.ErrInvalid].
type ReadOnlyError struct {
	Context string
	What    string // what was not done, such as "reset"
}

// Error names the context and what was not done.
func (e *ReadOnlyError) Error() string {
	article := "a"
	if strings.ContainsAny(e.What[:1], "aeiou") {
		article = "an"
	}
	return fmt.Sprintf("context %q is read-only; %s %s writes, so it was not done", e.Context, article, e.What)
}

// Is makes every ReadOnlyError a [limiter.ErrInvalid].
func (e *ReadOnlyError) Is(target error) bool { return target == limiter.ErrInvalid }

// Decide lets a peek through.
func (s *readOnlyStore) Decide(ctx context.Context, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
	if op != limiter.Peek {
		return &ReadOnlyError{s.name, op.String()}
	}
	return s.store.Decide(ctx, op, reqs, decisions)
}

// Scan implements limiter.Keyspace.
func (s *readOnlyStore) Scan(ctx context.Context, q limiter.Query) iter.Seq2[limiter.Entry, error] {
	return s.store.Scan(ctx, q)
}

// Delete refuses.
func (s *readOnlyStore) Delete(context.Context, ...limiter.Record) (int, []limiter.Record, error) {
	return 0, nil, &ReadOnlyError{s.name, "deletion"}
}

// Adjust refuses.
func (s *readOnlyStore) Adjust(context.Context, ...limiter.Adjustment) ([]limiter.Adjusted, error) {
	return nil, &ReadOnlyError{s.name, limiter.Adjust.String()}
}

// Import refuses.
func (s *readOnlyStore) Import(context.Context, bool, ...limiter.Record) ([]limiter.ImportOutcome, error) {
	return nil, &ReadOnlyError{s.name, "import"}
}

// Denials implements [limiter.DenialTable].
func (s *readOnlyStore) Denials(ctx context.Context, last time.Duration) (limiter.Denials, error) {
	table, has := limiter.DenialTableOf(s.store)
	if !has {
		return limiter.Denials{}, limiter.Invalidf("this store keeps no denials")
	}
	return table.Denials(ctx, last)
}

// AddDenials refuses.
func (s *readOnlyStore) AddDenials(context.Context, limiter.Denials) error {
	return &ReadOnlyError{s.name, "count of denials"}
}

// AppendJournal refuses.
func (s *readOnlyStore) AppendJournal(context.Context, string) error {
	return &ReadOnlyError{s.name, "write to the journal"}
}

// ReadJournal implements [limiter.Journal].
func (s *readOnlyStore) ReadJournal(ctx context.Context, most int) ([]limiter.JournalEntry, int, error) {
	journal, has := limiter.JournalOf(s.store)
	if !has {
		return nil, 0, limiter.Invalidf("this store keeps no journal")
	}
	return journal.ReadJournal(ctx, most)
}

// OverrideVersion implements [limiter.OverrideTable].
func (s *readOnlyStore) OverrideVersion(ctx context.Context) (string, error) {
	table, err := s.overrides()
	if err != nil {
		return "", err
	}
	return table.OverrideVersion(ctx)
}

// Overrides implements [limiter.OverrideTable].
func (s *readOnlyStore) Overrides(ctx context.Context) ([]limiter.Override, string, error) {
	table, err := s.overrides()
	if err != nil {
		return nil, "", err
	}
	return table.Overrides(ctx)
}

func (s *readOnlyStore) overrides() (limiter.OverrideTable, error) {
	table, has := limiter.OverrideTableOf(s.store)
	if !has {
		return nil, limiter.Invalidf("this store keeps no overrides")
	}
	return table, nil
}

// SetOverride refuses.
func (s *readOnlyStore) SetOverride(context.Context, limiter.Override, time.Duration) (limiter.Override, error) {
	return limiter.Override{}, &ReadOnlyError{s.name, "override"}
}

// RevokeOverride refuses.
func (s *readOnlyStore) RevokeOverride(context.Context, string) (limiter.Override, bool, error) {
	return limiter.Override{}, false, &ReadOnlyError{s.name, "revocation of an override"}
}

// Close implements limiter.Store.
func (s *readOnlyStore) Close() error { return s.store.Close() }
