package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// closed runs the laws of a closed store: every call returns the right error, and nothing opens it again.
func closed(t *testing.T, h Harness) {
	for name, used := range map[string]bool{"SaysSo": true, "UnusedSaysSo": false} {
		t.Run(name, func(t *testing.T) { t.Parallel(); closedStoreSaysSo(t, h, used) })
	}
	t.Run("WhileAsked", func(t *testing.T) { t.Parallel(); closedWhileAsked(t, h) })
}

// closing is a limit of many units with a key.
var closing = store.Request{Key: store.Key{Subject: "closing", Name: "limit"},
	Limit: store.Limit{Count: 1_000_000, Period: time.Hour}, Cost: 1}

// storeCall is a call of any method of a store.
type storeCall struct {
	name string
	call func() error
}

// everyCall returns a valid call of each method that the store has, except Close.
func everyCall(backend store.Store) (calls []storeCall) {
	ctx := context.Background()
	add := func(name string, call func() error) { calls = append(calls, storeCall{name, call}) }
	for _, op := range []store.Op{store.Take, store.Charge, store.Peek, store.Refund, store.Adjust, store.TakeUpTo} {
		add(op.String(), func() error {
			return backend.Decide(ctx, op, []store.Request{closing}, make([]store.Decision, 1))
		})
		other := closing
		if other.Key.Name = "other"; op != store.TakeUpTo { // which a Cluster only does in one slot
			other.Key.Subject = "other"
		}
		add(op.String()+" of two", func() error {
			return backend.Decide(ctx, op, []store.Request{closing, other}, make([]store.Decision, 2))
		})
	}
	token := closing
	token.Token, token.TokenTTL = "closing:token", time.Hour
	for _, op := range []store.Op{store.Take, store.Peek, store.Settle, store.Refund} {
		add(op.String()+" with a token", func() error {
			return backend.Decide(ctx, op, []store.Request{token}, make([]store.Decision, 1))
		})
	}
	if keys, has := store.As[admin.Adjuster](backend); has {
		var record store.State
		limit, _ := closing.Limit.Normalize()
		record.Charge(limit, 3, store.InstantOf(time.Now()))
		add("Import", func() error {
			_, err := keys.Import(ctx, true, admin.Record{Key: closing.Key, Value: record.AppendRecord(nil)})
			return err
		})
		everything, _ := store.ParsePattern("*")
		for name, q := range map[string]admin.Query{"Scan of a key": {Keys: []store.Key{closing.Key}},
			"Scan": {Subjects: everything}} {
			add(name, func() (failed error) {
				for _, err := range keys.Scan(ctx, q) {
					failed = errors.Join(failed, err)
				}
				return failed
			})
		}
		add("Adjust", func() error {
			_, err := keys.Adjust(ctx, admin.Adjustment{Key: closing.Key, Limit: closing.Limit, Used: 5})
			return err
		})
		add("Delete", func() error {
			_, _, err := keys.Delete(ctx, admin.Records(closing.Key)...)
			return err
		})
	}
	if tables, has := admin.TablesOf(backend); has {
		now := store.InstantOf(time.Now())
		add("AddDenials", func() error {
			return tables.AddDenials(ctx, admin.Denials{Now: now, Rows: []admin.Denied{{Key: closing.Key, Count: 1, LastAt: now}}})
		})
		add("Denials", func() error { _, err := tables.Denials(ctx, time.Minute); return err })
		add("StoreID", func() error { _, err := tables.StoreID(ctx); return err })
		add("EnsureStoreID", func() error { _, err := tables.EnsureStoreID(ctx); return err })
		add("AppendJournal", func() error { return tables.AppendJournal(ctx, "entry") })
		add("ReadJournal", func() error { _, _, err := tables.ReadJournal(ctx, 1); return err })
		add("SetOverride", func() error {
			_, err := tables.SetOverride(ctx, store.Override{Effect: store.OverrideBlock}, time.Hour)
			return err
		})
		add("OverrideVersion", func() error { _, err := tables.OverrideVersion(ctx); return err })
		add("Overrides", func() error { _, _, err := tables.Overrides(ctx); return err })
		add("RevokeOverride", func() error { _, _, err := tables.RevokeOverride(ctx, "00000000"); return err })
		add("Change", func() error {
			_, err := tables.Change(ctx, &admin.Change{Table: admin.ReportTable, Set: []admin.TableRecord{{Name: "1", Value: "text"}}})
			return err
		})
	}
	return calls
}

// closedStoreSaysSo checks that each call of a closed store is a [store.ErrClosed], which no failure policy and no
// breaker replaces, and that closing it again changes nothing.
func closedStoreSaysSo(t *testing.T, h Harness, used bool) {
	backend := h.New(t, nil)
	calls := everyCall(backend)
	if used {
		for _, c := range calls {
			if err := c.call(); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
	}
	closed := backend.Close()
	for range 2 {
		for _, c := range calls {
			if err := c.call(); !errors.Is(err, store.ErrClosed) || store.IsAway(err) {
				t.Errorf("%s of a closed store: %v", c.name, err)
			}
		}
		if err := backend.Close(); err != nil && !errors.Is(err, closed) {
			t.Errorf("closed as %v, and again as %v", closed, err)
		}
	}
	if closed != nil {
		t.Error(closed)
	}
}

// closedWhileAsked closes a store several times during many calls. A later call is a [store.ErrClosed], and one
// that was under way is answered, or fails with a correct error.
func closedWhileAsked(t *testing.T, h Harness) {
	backend := h.New(t, nil)
	var closed atomic.Bool
	var asked, all sync.WaitGroup
	for range 16 {
		asked.Add(1)
		all.Go(func() {
			for first := true; ; first = false {
				late := closed.Load()
				err := backend.Decide(context.Background(), store.Take, []store.Request{closing}, make([]store.Decision, 1))
				if first {
					asked.Done()
				}
				switch {
				case errors.Is(err, store.ErrClosed) && !store.IsAway(err):
					return
				case late, err != nil && !errors.Is(err, store.ErrOutcomeUnknown):
					t.Errorf("it was asked while it was being closed (after that: %v): %v", late, err)
					return
				}
			}
		})
	}
	asked.Wait()
	var closers sync.WaitGroup
	for range 2 {
		closers.Go(func() {
			if err := backend.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closers.Wait()
	closed.Store(true)
	all.Wait()
}
