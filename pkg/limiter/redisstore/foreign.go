package redisstore

import (
	"context"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Foreign returns the limits that other limiters keep in the servers of s, as far as sources
// know them. Closing it closes s.
//
// Scan reads only with commands that never write. Keys that sources are not sure of come with
// a [foreign.UnsureError]. Delete and Import go by the parts of a record, each of which is
// checked and changed in one step. Decide is a [store.ErrInvalid]: only the limiter itself
// decides. The journal and the identity are those of s.
func (s *Store) Foreign(sources foreign.Sources) admin.Keyspace {
	return &foreignKeys{store: s, sources: sources}
}

// foreignKeys is the keyspace of other limiters.
type foreignKeys struct {
	store   *Store
	sources foreign.Sources
}

// Decide implements [store.Store].
func (f *foreignKeys) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return store.Invalidf("only the limiter that wrote the keys can decide by them")
}

// Close implements [store.Store].
func (f *foreignKeys) Close() error { return f.store.Close() }

// AppendJournal implements [admin.Journal].
func (f *foreignKeys) AppendJournal(ctx context.Context, text string) error {
	return f.store.AppendJournal(ctx, text)
}

// ReadJournal implements [admin.Journal].
func (f *foreignKeys) ReadJournal(ctx context.Context, most int) ([]admin.JournalEntry, int, error) {
	return f.store.ReadJournal(ctx, most)
}

// StoreID implements [admin.Identity].
func (f *foreignKeys) StoreID(ctx context.Context) (string, error) { return f.store.StoreID(ctx) }

// EnsureStoreID implements [admin.Identity].
func (f *foreignKeys) EnsureStoreID(ctx context.Context) (string, error) {
	return f.store.EnsureStoreID(ctx)
}

// isBeside reports whether a store key is of what limitctl keeps with its limits.
func (f *foreignKeys) isBeside(storeKey string) bool {
	return strings.HasPrefix(storeKey, string(f.store.lanes.Own)+"!")
}

// tagsOf returns keys whose subjects lie in the slots of store keys.
func tagsOf(storeKeys []string) []store.Key {
	keys := make([]store.Key, len(storeKeys))
	for i, storeKey := range storeKeys {
		keys[i].Subject = hashTag(storeKey)
	}
	return keys
}

// hashTag returns the part of a store key that decides its slot in a Cluster: what is between
// the first brace and the one that ends it, if that is something, else all of it.
func hashTag(storeKey string) string {
	_, rest, opened := strings.Cut(storeKey, "{")
	tag, _, closed := strings.Cut(rest, "}")
	if opened && closed && tag != "" {
		return tag
	}
	return storeKey
}
