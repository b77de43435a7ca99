package operation

import (
	"context"
	"iter"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// scannedWhole is the most keys that a store can have to be scanned for one subject at once. Redis has no index of
	// the keys of a subject.
	scannedWhole = 100_000
	// namesDenied is how long ago a name can have been denied to be known.
	namesDenied = time.Hour
)

// Entries yields what a scan of a query finds, which is that of the selection but for what it asks for. In a store of many
// keys, one subject is looked for under the names of limits that are known, and scanned for if nothing is there.
func (s *Selection) Entries(ctx context.Context, backend admin.Keyspace, query admin.Query) iter.Seq2[admin.Entry, error] {
	if s.Names == nil {
		return backend.Scan(ctx, query)
	}
	return func(yield func(admin.Entry, error) bool) {
		counting, enough := context.WithCancel(ctx)
		defer enough()
		many, found := false, false
		counted := query
		counted.Progress = func(looked, total int64) {
			if query.Report(looked, total); looked == 0 && total > scannedWhole {
				many = true
				enough()
			}
		}
		for entry, err := range backend.Scan(counting, counted) {
			if many && ctx.Err() == nil {
				break
			}
			if !yield(entry, err) {
				return
			}
		}
		if !many || ctx.Err() != nil {
			return
		}
		byName := query
		if byName.Keys = s.keysByName(ctx, backend, &query); len(byName.Keys) > 0 {
			for entry, err := range backend.Scan(ctx, byName) {
				if found = true; !yield(entry, err) {
					return
				}
			}
		}
		if found {
			return
		}
		for entry, err := range backend.Scan(ctx, query) {
			if !yield(entry, err) {
				return
			}
		}
	}
}

// keysByName returns the keys of the subject under the names of the selection, and under those that were denied to anybody.
func (s *Selection) keysByName(ctx context.Context, backend admin.Keyspace, query *admin.Query) (keys []store.Key) {
	subject, _ := query.Subjects.Exact()
	has := map[string]bool{}
	add := func(name string) {
		key := store.Key{Subject: subject, Name: name}
		if !has[name] && query.Selects(key) && key.Validate() == nil {
			has[name] = true
			keys = append(keys, key)
		}
	}
	for _, name := range s.Names {
		add(name)
	}
	if table, has := admin.TablesOf(backend); has {
		denials, _ := table.Denials(ctx, namesDenied) // without the right to it, the other names are enough
		for i := range denials.Rows {
			add(denials.Rows[i].Key.Name)
		}
	}
	return keys
}
