package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// closed runs the laws of a store that is closed: it says so, whatever it is asked, and neither
// forgets that nor opens anything again.
func closed(t *testing.T, h Harness) {
	for name, used := range map[string]bool{"SaysSo": true, "UnusedSaysSo": false} {
		t.Run(name, func(t *testing.T) { t.Parallel(); closedStoreSaysSo(t, h, used) })
	}
	t.Run("WhileAsked", func(t *testing.T) { t.Parallel(); closedWhileAsked(t, h) })
}

// closing is a limit of many units and a key under it.
var closing = limiter.Request{Key: limiter.Key{Subject: "closing", Name: "limit"},
	Limit: limiter.Limit{Count: 1_000_000, Period: time.Hour}, Cost: 1}

// storeCall is a call of any method of a store.
type storeCall struct {
	name string
	call func() error
}

// everyCall returns a sound call of each method that store has, except Close.
func everyCall(store limiter.Store) (calls []storeCall) {
	ctx := context.Background()
	add := func(name string, call func() error) { calls = append(calls, storeCall{name, call}) }
	for _, op := range []limiter.Op{limiter.Take, limiter.Charge, limiter.Peek, limiter.Refund, limiter.Adjust, limiter.TakeUpTo} {
		add(op.String(), func() error {
			return store.Decide(ctx, op, []limiter.Request{closing}, make([]limiter.Decision, 1))
		})
		other := closing
		other.Key.Subject = "other"
		add(op.String()+" of two", func() error {
			return store.Decide(ctx, op, []limiter.Request{closing, other}, make([]limiter.Decision, 2))
		})
	}
	token := closing
	token.Token, token.TokenTTL = "closing:token", time.Hour
	for _, op := range []limiter.Op{limiter.Take, limiter.Peek, limiter.Settle, limiter.Refund} {
		add(op.String()+" with a token", func() error {
			return store.Decide(ctx, op, []limiter.Request{token}, make([]limiter.Decision, 1))
		})
	}
	if keys, has := store.(limiter.Keyspace); has {
		var record limiter.State
		limit, _ := closing.Limit.Normalize()
		record.Charge(limit, 3, limiter.InstantOf(time.Now()))
		add("Import", func() error {
			_, err := keys.Import(ctx, true, limiter.Record{Key: closing.Key, Value: record.AppendRecord(nil)})
			return err
		})
		everything, _ := limiter.ParsePattern("*")
		for name, q := range map[string]limiter.Query{"Scan of a key": {Keys: []limiter.Key{closing.Key}},
			"Scan": {Subjects: everything}} {
			add(name, func() (failed error) {
				for _, err := range keys.Scan(ctx, q) {
					failed = errors.Join(failed, err)
				}
				return failed
			})
		}
		add("Adjust", func() error {
			_, err := keys.Adjust(ctx, limiter.Adjustment{Key: closing.Key, Limit: closing.Limit, Used: 5})
			return err
		})
		add("Delete", func() error {
			_, _, err := keys.Delete(ctx, limiter.Records(closing.Key)...)
			return err
		})
	}
	if table, has := limiter.DenialTableOf(store); has {
		now := limiter.InstantOf(time.Now())
		add("AddDenials", func() error {
			return table.AddDenials(ctx, limiter.Denials{Now: now, Rows: []limiter.Denied{{Key: closing.Key, Count: 1, LastAt: now}}})
		})
		add("Denials", func() error { _, err := table.Denials(ctx, time.Minute); return err })
	}
	if id, has := limiter.IdentityOf(store); has {
		add("StoreID", func() error { _, err := id.StoreID(ctx); return err })
		add("EnsureStoreID", func() error { _, err := id.EnsureStoreID(ctx); return err })
	}
	if journal, has := limiter.JournalOf(store); has {
		add("AppendJournal", func() error { return journal.AppendJournal(ctx, "entry") })
		add("ReadJournal", func() error { _, _, err := journal.ReadJournal(ctx, 1); return err })
	}
	if table, has := limiter.OverrideTableOf(store); has {
		add("SetOverride", func() error {
			_, err := table.SetOverride(ctx, limiter.Override{Effect: limiter.OverrideBlock}, time.Hour)
			return err
		})
		add("OverrideVersion", func() error { _, err := table.OverrideVersion(ctx); return err })
		add("Overrides", func() error { _, _, err := table.Overrides(ctx); return err })
		add("RevokeOverride", func() error { _, _, err := table.RevokeOverride(ctx, "none"); return err })
	}
	return calls
}

// closedStoreSaysSo wants each call of a closed store to be a [limiter.ErrClosed], for which no
// failure policy and no breaker answers, and closing it again to change nothing.
func closedStoreSaysSo(t *testing.T, h Harness, used bool) {
	store := h.New(t, nil)
	calls := everyCall(store)
	if used {
		for _, c := range calls {
			if err := c.call(); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
	}
	closed := store.Close()
	for range 2 {
		for _, c := range calls {
			if err := c.call(); !errors.Is(err, limiter.ErrClosed) || limiter.IsAway(err) {
				t.Errorf("%s of a closed store: %v", c.name, err)
			}
		}
		if err := store.Close(); err != nil && err != closed {
			t.Errorf("closed as %v, and again as %v", closed, err)
		}
	}
	if closed != nil {
		t.Error(closed)
	}
}

// closedWhileAsked closes a store several times while many ask it. A call that begins after that
// is an [limiter.ErrClosed], and one that was on its way is answered, or says truly what it is.
func closedWhileAsked(t *testing.T, h Harness) {
	store := h.New(t, nil)
	var closed atomic.Bool
	var asked, all sync.WaitGroup
	for range 16 {
		asked.Add(1)
		all.Go(func() {
			for first := true; ; first = false {
				late := closed.Load()
				err := store.Decide(context.Background(), limiter.Take, []limiter.Request{closing}, make([]limiter.Decision, 1))
				if first {
					asked.Done()
				}
				switch {
				case errors.Is(err, limiter.ErrClosed) && !limiter.IsAway(err):
					return
				case late, err != nil && !errors.Is(err, limiter.ErrOutcomeUnknown):
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
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closers.Wait()
	closed.Store(true)
	all.Wait()
}
