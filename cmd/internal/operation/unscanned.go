package operation

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ScannedWhole is the most keys that a store can have to be scanned for one subject. Redis has no index of the keys of a
// subject, so in a larger store keys of that subject are looked for under the names that are known.
const ScannedWhole = 100_000

// Where names are known from, besides the likely keys.
const (
	namesSampled = 5_000     // keys of the store. They miss a name that one key in a thousand has in one store of 150.
	namesDenied  = time.Hour // the keys that were denied in it
	mostNames    = 200       // those that most keys have
)

// Unscanned says that keys of one subject were looked for under known names only, because the store has many keys.
type Unscanned struct {
	Is bool
	// Names are those of limits that have a name of their own, sorted.
	Names []string
}

// Entries yields what a scan of a query finds, which is that of the selection but for what it asks for. A store of many
// keys is not scanned if the selection has likely keys; unscanned then says so.
func (s *Selection) Entries(ctx context.Context, backend admin.Keyspace, query admin.Query,
	unscanned *Unscanned) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		counting, enough := context.WithCancel(ctx)
		defer enough()
		many := false
		counted := query
		counted.Progress = func(looked, total int64) {
			if query.Report(looked, total); len(s.Likely) > 0 && looked == 0 && total > ScannedWhole {
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
		known, err := s.known(ctx, backend, query)
		if err != nil {
			yield(admin.Entry{}, err)
			return
		}
		*unscanned = Unscanned{Is: true, Names: ownNames(known.Keys)}
		for entry, err := range backend.Scan(ctx, known) {
			if !yield(entry, err) {
				return
			}
		}
	}
}

// known makes a query one of exactly the keys that are likely, or that have the name of another key.
func (s *Selection) known(ctx context.Context, backend admin.Keyspace, query admin.Query) (admin.Query, error) {
	query.Keys, query.StoreKeys = s.Likely, s.LikelyStoreKeys
	if s.LikelyStoreKeys != nil { // of other limiters, whose keys have no names
		return query, nil
	}
	names, err := namesInUse(ctx, backend, query.KeysPerSecond)
	if err != nil {
		return query, err
	}
	subject := s.Likely[0].Subject
	has := map[store.Key]bool{}
	query.Keys = nil
	add := func(key store.Key) {
		if !has[key] && query.Selects(key) && key.Validate() == nil {
			has[key] = true
			query.Keys = append(query.Keys, key)
		}
	}
	for _, key := range s.Likely {
		add(key)
	}
	for _, name := range names {
		add(store.Key{Subject: subject, Name: name})
	}
	return query, nil
}

// namesInUse returns the names that keys of the store have, as far as a sample of the keys and the table of denials
// tell, the most frequent first.
func namesInUse(ctx context.Context, backend admin.Keyspace, keysPerSecond int) ([]string, error) {
	counts := map[string]int{}
	if table, has := admin.DenialTableOf(backend); has {
		denials, _ := table.Denials(ctx, namesDenied) // without the right to it, or half of it, the sample is enough
		for i := range denials.Rows {
			counts[denials.Rows[i].Key.Name]++
		}
	}
	everybody, err := store.ParsePattern("*")
	if err != nil {
		return nil, err
	}
	sampling, enough := context.WithCancel(ctx)
	defer enough()
	var mu sync.Mutex // masters of a Cluster are scanned at once
	sample := admin.Query{Subjects: everybody, KeysPerSecond: keysPerSecond, Match: func(key store.Key) bool {
		mu.Lock()
		defer mu.Unlock()
		counts[key.Name]++
		return false // its value is not needed
	}, Progress: func(looked, _ int64) {
		if looked >= namesSampled {
			enough()
		}
	}}
	for _, err := range backend.Scan(sampling, sample) {
		if err != nil && sampling.Err() == nil {
			return nil, err
		}
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	return names[:min(len(names), mostNames)], ctx.Err()
}

// ownNames returns the names of keys whose limits have one of their own, sorted.
func ownNames(keys []store.Key) []string {
	names := map[string]bool{}
	for _, key := range keys {
		algorithm, _, _ := strings.Cut(key.Name, "/")
		if _, err := store.ParseAlgorithm(algorithm); err != nil && key.Name != "" {
			names[policy.LimitName(key)] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
