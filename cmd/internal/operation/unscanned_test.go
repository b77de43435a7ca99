package operation

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// manyKeyed is a store that has any number of keys of others, which come first in a scan.
type manyKeyed struct {
	admin.Keyspace
	table       admin.DenialTable
	others      int64
	name        func(i int64) string
	looked      int64 // by scans, so far
	scanFailure error
}

func (m *manyKeyed) Denials(ctx context.Context, last time.Duration) (admin.Denials, error) {
	return m.table.Denials(ctx, last)
}

func (m *manyKeyed) AddDenials(ctx context.Context, d admin.Denials) error {
	return m.table.AddDenials(ctx, d)
}

func (m *manyKeyed) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	if q.Keys != nil {
		return m.Keyspace.Scan(ctx, q)
	}
	return func(yield func(admin.Entry, error) bool) {
		q.Report(0, m.others)
		for i := range m.others {
			if ctx.Err() != nil {
				break
			}
			if m.scanFailure != nil && i == 10 {
				yield(admin.Entry{}, m.scanFailure)
				return
			}
			m.looked++
			q.Selects(store.Key{Subject: fmt.Sprintf("other:%d", i), Name: m.name(i)})
			q.Report(i+1, m.others)
		}
		if ctx.Err() != nil {
			yield(admin.Entry{}, ctx.Err())
			return
		}
		for entry, err := range m.Keyspace.Scan(ctx, q) {
			if !yield(entry, err) {
				return
			}
		}
	}
}

// In a store of many keys one subject is not scanned for: its keys are looked for under the likely names, and under those
// that denied keys and a sample of the store have.
func TestOneSubjectIsNotScannedFor(t *testing.T) {
	backend := memorystore.New()
	defer backend.Close()
	var reqs []store.Request
	for _, name := range []string{"likely", "sampled", "denied", "rare"} {
		reqs = append(reqs, store.Request{Key: store.Key{Subject: "user:7", Name: name}, Limit: tenAnHour, Cost: 1})
	}
	decisions := make([]store.Decision, len(reqs))
	if err := backend.Decide(t.Context(), store.Take, reqs, decisions); err != nil {
		t.Fatal(err)
	}
	table, has := admin.DenialTableOf(backend)
	if !has {
		t.Fatal("no table")
	}
	now := store.InstantOf(time.Now())
	denials := admin.Denials{Now: now, Rows: []admin.Denied{{Key: store.Key{Subject: "user:8", Name: "denied"}, Count: 1, LastAt: now}}}
	if err := table.AddDenials(t.Context(), denials); err != nil {
		t.Fatal(err)
	}
	subjects, err := store.ParsePattern("user:7")
	if err != nil {
		t.Fatal(err)
	}
	look := func(many *manyKeyed, match func(store.Key) bool) (names []string, unscanned Unscanned, err error) {
		many.Keyspace, many.table = backend, table
		s := &Selection{Query: admin.Query{Subjects: subjects, Match: match}, Likely: []store.Key{reqs[0].Key}}
		for entry, entryErr := range s.Entries(t.Context(), many, s.Query, &unscanned) {
			if err = entryErr; err != nil {
				break
			}
			names = append(names, entry.Key.Name)
		}
		slices.Sort(names)
		return names, unscanned, err
	}
	// One in a hundred has a name that is not likely, and a "rare" one comes last.
	named := func(i int64) string {
		switch {
		case i == ScannedWhole:
			return "rare"
		case i%100 == 0:
			return "sampled"
		}
		return "common"
	}

	many := &manyKeyed{others: ScannedWhole + 1, name: named}
	names, unscanned, err := look(many, nil)
	if want := []string{"denied", "likely", "sampled"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("found %q, %v, want %q", names, err, want)
	}
	if want := []string{"common", "denied", "likely", "sampled"}; !unscanned.Is || !slices.Equal(unscanned.Names, want) {
		t.Errorf("it says %v, want %q", unscanned, want)
	}
	if many.looked > 2*namesSampled {
		t.Errorf("%d keys were looked at", many.looked)
	}

	// The query's own condition counts, such as that keys are not known yet.
	names, _, err = look(&manyKeyed{others: ScannedWhole + 1, name: named}, func(key store.Key) bool { return key.Name != "likely" })
	if want := []string{"denied", "sampled"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("found %q, %v, want %q", names, err, want)
	}

	// A store of as many keys is scanned.
	names, unscanned, err = look(&manyKeyed{others: ScannedWhole, name: named}, nil)
	if err != nil || len(names) != len(reqs) || unscanned.Is {
		t.Errorf("found %q, %v, unscanned %v", names, err, unscanned)
	}

	// A sample that fails is an error: without it names would be missing, and nobody told.
	if _, _, err = look(&manyKeyed{others: ScannedWhole + 1, name: named, scanFailure: store.ErrUnavailable}, nil); err == nil {
		t.Error("no error though the sample failed")
	}

	// Of names that strangers make there can be any number. Those that most keys have are asked for.
	strange := func(i int64) string {
		if i%10 == 0 {
			return "sampled"
		}
		return fmt.Sprintf("strange:%d", i)
	}
	names, unscanned, err = look(&manyKeyed{others: ScannedWhole + 1, name: strange}, nil)
	if err != nil || !slices.Contains(names, "sampled") || len(unscanned.Names) > mostNames+1 {
		t.Errorf("found %q, %v, of %d names", names, err, len(unscanned.Names))
	}
}
