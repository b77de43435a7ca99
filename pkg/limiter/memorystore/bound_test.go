package memorystore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// fullStore is a store of three keys, each under a limit of 2 per minute, of which 1 is used.
type fullStore struct {
	*testing.T
	*Store
	now time.Time
}

const mostKeys = 3

func newFull(t *testing.T) *fullStore {
	t.Helper()
	f := &fullStore{T: t, now: time.Unix(1_700_000_000, 0)}
	f.Store = New(WithClock(func() time.Time { return f.now }), WithMaxKeys(mostKeys))
	for i := range mostKeys {
		f.is(nil, store.Take, two(fmt.Sprint("held", i)))
	}
	return f
}

func two(subject string) store.Request {
	return store.Request{Key: store.Key{Subject: subject, Name: "two"}, Cost: 1,
		Limit: store.Limit{Algorithm: store.FixedWindow, Count: 2, Period: time.Minute}}
}

// is decides reqs and checks the error.
func (f *fullStore) is(want error, op store.Op, reqs ...store.Request) []store.Decision {
	f.Helper()
	decisions := make([]store.Decision, len(reqs))
	if err := f.Decide(context.Background(), op, reqs, decisions); !errors.Is(err, want) || store.IsAway(err) {
		f.Errorf("%s %v: %v, want %v", op, reqs, err, want)
	}
	if n := f.Len(); n > mostKeys {
		f.Errorf("%d keys are held", n)
	}
	return decisions
}

func (f *fullStore) used(subject string) int64 {
	f.Helper()
	return f.is(nil, store.Peek, two(subject))[0].Used
}

// A full store refuses new keys, charges nothing for them, and decides the keys that it holds.
func TestAFullStoreRefusesNewKeys(t *testing.T) {
	f := newFull(t)
	for _, op := range []store.Op{store.Take, store.Charge, store.TakeUpTo, store.Adjust} {
		f.is(store.ErrRefused, op, two("new"))
		f.is(store.ErrRefused, op, two("held0"), two("new"))
		f.is(store.ErrRefused, op, two("new"), two("held0"))
	}
	for _, op := range []store.Op{store.Peek, store.Refund} { // which add none
		f.is(nil, op, two("new"))
	}
	if err := f.Decide(context.Background(), store.Take, []store.Request{two("new")},
		make([]store.Decision, 1)); err == nil ||
		!strings.Contains(err.Error(), "the store holds its most keys, 3, and all are in use") {
		t.Errorf("it says %v", err)
	}
	for i := range mostKeys {
		if used := f.used(fmt.Sprint("held", i)); used != 1 {
			t.Errorf("of key %d %d are used, want 1", i, used)
		}
	}
	if d := f.is(nil, store.Take, two("held0"))[0]; !d.Allowed || d.Used != 2 {
		t.Errorf("a key that is held: %+v", d)
	}
	// A denial of an existing key stays a denial, and no key in use is removed.
	if d := f.is(nil, store.Take, two("held0"), two("new"))[0]; d.Allowed {
		t.Errorf("a third of two: %+v", d)
	}
	token := two("new")
	token.Token, token.TokenTTL = "t", time.Hour
	f.is(store.ErrRefused, store.Take, token)
	f.is(nil, store.Refund, two("held1")) // down to nothing, which frees a place
	if d := f.is(nil, store.Take, token)[0]; !d.Allowed || d.Repeated || d.Used != 1 {
		t.Errorf("once there is a place: %+v", d)
	}
	f.is(store.ErrRefused, store.Take, two("held1"))
}

// A key that has become unused is removed, in any stripe, and not a microsecond earlier.
func TestAFullStoreReclaimsUnusedKeys(t *testing.T) {
	for i := range 200 { // keys of all stripes
		f := newFull(t)
		end := f.is(nil, store.Peek, two("held0"))[0].ResetAfter
		f.now = f.now.Add(end - time.Microsecond)
		f.is(store.ErrRefused, store.Take, two(fmt.Sprint("new", i)))
		f.now = f.now.Add(time.Microsecond)
		for n := range mostKeys {
			f.is(nil, store.Take, two(fmt.Sprint("new", i, "/", n)))
		}
		f.is(store.ErrRefused, store.Take, two(fmt.Sprint("new", i)))
	}
}

// The bound applies to changes by operators, and a deletion frees places.
func TestAFullStoreRefusesOperators(t *testing.T) {
	f, ctx := newFull(t), context.Background()
	adjustment := admin.Adjustment{Key: two("new").Key, Limit: two("new").Limit, Used: 1}
	held := admin.Adjustment{Key: two("held0").Key, Limit: two("new").Limit, Used: 2}
	if results, err := f.Adjust(ctx, held, adjustment); !errors.Is(err, store.ErrRefused) || !results[0].Done ||
		results[1].Done {
		t.Errorf("adjusted: %+v, %v", results, err)
	}
	var records []admin.Record
	for entry, err := range f.Scan(ctx, admin.Query{Keys: []store.Key{two("held1").Key}, Records: true}) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, entry.Record, entry.Record)
		records[1].Key = two("new").Key
	}
	if outcomes, err := f.Import(ctx, true, records...); !errors.Is(err, store.ErrRefused) ||
		outcomes[0] != admin.AlreadyThere || outcomes[1] != admin.NotKnown {
		t.Errorf("imported: %v, %v", outcomes, err)
	}
	if n, _, err := f.Delete(ctx, admin.Records(two("held2").Key)...); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if outcomes, err := f.Import(ctx, true, records...); err != nil || outcomes[1] != admin.Imported ||
		f.Len() != mostKeys {
		t.Errorf("once there is a place: %v, %v, %d keys", outcomes, err, f.Len())
	}
}

// Concurrent callers add exactly as many keys as the bound allows.
func TestManyCallersFillAStore(t *testing.T) {
	const most = 100
	now := time.Unix(1_700_000_000, 0)
	backend := New(WithMaxKeys(most), WithClock(func() time.Time { return now }))
	var added atomic.Int64
	var all sync.WaitGroup
	for caller := range 32 {
		all.Go(func() {
			for i := range 20 {
				reqs := []store.Request{two(fmt.Sprint(caller, "/", i))}
				err := backend.Decide(context.Background(), store.Take, reqs, make([]store.Decision, 1))
				switch {
				case err == nil:
					added.Add(1)
				case !errors.Is(err, store.ErrRefused):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := added.Load(); n != most || backend.Len() != most {
		t.Errorf("%d keys were added, and %d are held, want %d", n, backend.Len(), most)
	}
}
