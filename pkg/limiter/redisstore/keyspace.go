package redisstore

import (
	"context"
	"iter"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/keyspace"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.Keyspace = (*Store)(nil)

// Scan implements [admin.Keyspace] with SCAN on the server, on every master of a Cluster at once, and batched reads. An
// exact subject is looked for in its slot of a Cluster alone.
func (s *Store) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return s.keys.Scan(ctx, q)
}

// Delete implements [admin.Keyspace] with UNLINK inside a script that checks each value first.
func (s *Store) Delete(ctx context.Context, records ...admin.Record) (deleted int, changed []admin.Record, err error) {
	return s.keys.Delete(ctx, records...)
}

// Import implements [admin.Keyspace].
func (s *Store) Import(ctx context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	return s.keys.Import(ctx, replace, records...)
}

// Adjust implements [admin.Keyspace] with many keys in each script call.
func (s *Store) Adjust(ctx context.Context, adjustments ...admin.Adjustment) ([]admin.Adjusted, error) {
	return s.keys.Adjust(ctx, adjustments...)
}

// OtherLimiters returns the limits that other limiters keep in the servers of s, as far as sources
// know them. Closing it closes s.
//
// Scan reads only with commands that never write. Keys that sources are not sure of come with a [layouts.UnsureError].
// Delete and Import go by the parts of a record, each of which is checked and changed in one step. Decide is a
// [store.ErrInvalid]: only the limiter itself decides. The journal and the identity are those of s.
func (s *Store) OtherLimiters(sources layouts.Sources) admin.Keyspace {
	return &layoutKeys{s.keys.OtherLimiters(sources), admin.Tables{SideTable: s.SideTable, AuditOnly: true}, s}
}

// layoutKeys is the keyspace of other limiters.
type layoutKeys struct {
	*keyspace.Keyspace
	admin.Tables
	store *Store
}

// Decide implements [store.Store].
func (f *layoutKeys) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return store.Invalidf("only the limiter that wrote the keys can decide by them")
}

// Adjust implements [admin.Keyspace].
func (f *layoutKeys) Adjust(context.Context, ...admin.Adjustment) ([]admin.Adjusted, error) {
	return nil, store.Invalidf("limitctl only deletes keys of other limiters")
}

// Close implements [store.Store].
func (f *layoutKeys) Close() error { return f.store.Close() }
