package operation

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Selection is which keys an operation is about.
type Selection struct {
	Query admin.Query
	// Keep, if set, says which of the states that the query finds are selected.
	Keep func(*admin.Entry) bool
	// Names, if not nil, are the names under which the query's one subject may have keys. In a store of many keys only
	// these are looked for, and those of limits that were denied, if there are any. A reset does not use them.
	Names []string
	// Damaged selects damaged records of limitctl's own, too.
	Damaged bool
	// Text is the selection in words, for people.
	Text string
	// OfPolicy: it selects by a policy, and so only limitctl's own keys.
	OfPolicy bool
}

// Found is what a scan came to.
type Found struct {
	// Matched is how many keys were selected, foreign values aside.
	Matched int64
	// Looked is how many keys were looked at, of about Total.
	Looked, Total int64
	Foreign       Foreign
	// Unsure are keys that may be of a limiter, and were left out.
	Unsure Unsure
}

// manyKeys is from how many selected keys on a scan is careful with memory.
const manyKeys = 1_000_000

// Scan calls do with each selected key; a damaged record comes with its error. An error of do ends the scan.
func Scan(ctx context.Context, backend admin.Keyspace, s *Selection, observer Observer,
	do func(e *admin.Entry, foreign error) error) (found Found, err error) {
	progress := observer.Begin("scanning", "matched")
	defer progress.Close()
	found.Unsure.First = []UnsureKey{} // a list in JSON, also if empty
	query := s.Query
	query.Progress = func(looked, total int64) {
		found.Looked, found.Total = looked, total
		progress.Set(looked, total, found.Matched)
	}
	for entry, err := range s.Entries(ctx, backend, query) {
		var unsure *layouts.UnsureError
		switch {
		case errors.As(err, &unsure):
			found.Unsure.add(unsure)
			err = nil
		case s.Damaged && isDamaged(err) && (s.Keep == nil || s.Keep(&entry)):
			found.Matched++
			err = do(&entry, err)
		case errors.Is(err, store.ErrForeign):
			found.Foreign.add(err)
			err = nil
		case err == nil && (s.Keep == nil || s.Keep(&entry)):
			// The scan of a Cluster remembers the keys it has seen. With many keys that is
			// large, and garbage must not double it.
			if found.Matched++; found.Matched == manyKeys {
				defer sys.CollectOften()()
			}
			err = do(&entry, nil)
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// WithProgress says of an error of the scan how far it had come.
func (f *Found) WithProgress(err error) error {
	if err == nil || f.Looked == 0 {
		return err
	}
	return outcome.WithProgress(err, "%d of about %d keys looked at, %d matched", f.Looked, f.Total, f.Matched)
}

// nothingChanged says of the error of a scan that nothing was done after it.
func nothingChanged(found *Found, err error) error {
	if found.Looked == 0 {
		return outcome.WithProgress(err, "nothing was changed")
	}
	return outcome.WithProgress(err, "%d of about %d keys looked at, nothing was changed", found.Looked, found.Total)
}

const (
	// scannedWhole is the most keys that a store can have to be scanned for one subject at once. Redis has no index of
	// the keys of a subject.
	scannedWhole = 100_000
	// namesDenied is how long ago a name can have been denied to be known.
	namesDenied = time.Hour
)

// Entries yields what a scan of a query finds, which is that of the selection but for what it asks for. In a store of
// many keys, one subject is looked for under the names of limits that are known, and scanned for if nothing is there.
func (s *Selection) Entries(ctx context.Context, backend admin.Keyspace, query admin.Query) iter.Seq2[admin.Entry,
	error] {
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

// keysByName returns the keys of the subject under the names of the selection, and under those that were denied to
// anybody.
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
