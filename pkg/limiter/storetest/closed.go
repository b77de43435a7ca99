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
	t.Run("SaysSo", func(t *testing.T) { t.Parallel(); closedStoreSaysSo(t, h) })
	t.Run("WhileAsked", func(t *testing.T) { t.Parallel(); closedWhileAsked(t, h) })
}

// closing is a limit of many units with a key.
var closing = store.Request{Key: store.Key{Subject: "closing", Name: "limit"},
	Limit: store.Limit{Count: 1_000_000, Period: time.Hour}, Cost: 1}

// everyCall returns a valid call of each method that the store has, except Close.
func everyCall(backend store.Store) map[string]func() error {
	ctx := context.Background()
	calls := map[string]func() error{}
	decide := func(name string, op store.Op, reqs ...store.Request) {
		calls[op.String()+name] = func() error {
			return backend.Decide(ctx, op, reqs, make([]store.Decision, len(reqs)))
		}
	}
	other, token := closing, closing
	other.Key.Subject, token.Token, token.TokenTTL = "other", "closing:token", time.Hour
	for _, op := range []store.Op{store.Take, store.Charge, store.Peek, store.Refund, store.Adjust, store.TakeUpTo} {
		decide("", op, closing)
	}
	decide(" of two", store.Take, closing, other)
	decide(" with a token", store.Take, token)
	if keys, has := admin.KeyspaceOf(backend); has {
		var record store.State
		limit, _ := closing.Limit.Normalize()
		record.Charge(limit, 3, store.InstantOf(time.Now()))
		calls["Scan"] = func() (failed error) {
			for _, err := range keys.Scan(ctx, admin.Query{Keys: []store.Key{closing.Key}}) {
				failed = errors.Join(failed, err)
			}
			return failed
		}
		calls["Import"] = func() error {
			_, err := keys.Import(ctx, true, admin.Record{Key: closing.Key, Value: record.AppendRecord(nil)})
			return err
		}
		calls["Adjust"] = func() error {
			_, err := keys.Adjust(ctx, admin.Adjustment{Key: closing.Key, Limit: closing.Limit, Used: 5})
			return err
		}
		calls["Delete"] = func() error { _, _, err := keys.Delete(ctx, admin.Records(closing.Key)...); return err }
	}
	if tables, has := admin.TablesOf(backend); has {
		calls["AddDenials"] = func() error { return tables.AddDenials(ctx, admin.Denials{Others: 1}) }
		calls["Denials"] = func() error { _, err := tables.Denials(ctx, time.Minute); return err }
		calls["AppendJournal"] = func() error { return tables.AppendJournal(ctx, "entry") }
		calls["ReadJournal"] = func() error { _, _, err := tables.ReadJournal(ctx, 1); return err }
		calls["Overrides"] = func() error { _, _, err := tables.Overrides(ctx); return err }
		calls["Change"] = func() error {
			_, err := tables.Change(
				ctx, &admin.Change{Table: admin.ReportTable, Set: []admin.TableRecord{{Name: "1", Value: "text"}}})
			return err
		}
	}
	return calls
}

// closedStoreSaysSo checks that each call of a closed store is a [store.ErrClosed], which no failure policy and no
// breaker replaces, and that closing it again changes nothing.
func closedStoreSaysSo(t *testing.T, h Harness) {
	backend := h.New(t, nil)
	calls := everyCall(backend)
	for name, call := range calls {
		if err := call(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	closed := backend.Close()
	for range 2 {
		for name, call := range calls {
			if err := call(); !errors.Is(err, store.ErrClosed) || store.IsAway(err) {
				t.Errorf("%s of a closed store: %v", name, err)
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
				err := backend.Decide(context.Background(), store.Take, []store.Request{closing},
					make([]store.Decision, 1))
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
