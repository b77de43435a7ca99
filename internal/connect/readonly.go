package connect

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ReadOnly wraps the store of a context so that nothing can write to it. A write fails with a [store.ErrInvalid]
// that names the context.
func ReadOnly(backend Store, name string) Store {
	s := &readOnlyStore{store: backend, name: name}
	if tables, has := admin.AuditOf(backend); has {
		s.Tables = *tables
		s.SideTable = readOnlySide{tables.SideTable, name}
	}
	return s
}

// readOnlyStore has every method of a store rather than embedding one, so that a new method of the interface has to
// be considered here.
type readOnlyStore struct {
	admin.Tables
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

// Close implements store.Store.
func (s *readOnlyStore) Close() error { return s.store.Close() }

// readOnlySide refuses to change what is beside the limits.
type readOnlySide struct {
	admin.SideTable
	name string
}

// Change refuses.
func (s readOnlySide) Change(_ context.Context, c *admin.Change) (bool, error) {
	return false, &ReadOnlyError{s.name, c.What}
}

// Append refuses.
func (s readOnlySide) Append(_ context.Context, l admin.List, _ string) error {
	return &ReadOnlyError{s.name, "write to " + l.String()}
}

// AddCounts refuses.
func (s readOnlySide) AddCounts(context.Context, *admin.Denials) error {
	return &ReadOnlyError{s.name, "count of denials"}
}
