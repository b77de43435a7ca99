package filestore_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Callers whose takes share a transaction each get their own answer.
func TestCallersTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	if err := take(backend, store.Key{Subject: "u"}, hour, 1); err != nil {
		t.Fatal(err)
	}
	execute(t, path, "INSERT INTO limits VALUES ('rl', 'bad', 'n', x'00', 9223372036854775807)")
	wide := store.Limit{Count: 1000, Period: store.MaxPeriod} // nothing of it lapses meanwhile
	const callers = 60
	results := make([]error, callers)
	allowed := make([]bool, callers)
	together(t, path, callers, func(i int) {
		switch i % 2 {
		case 0: // both or none: hot fits 10 times
			var decisions []store.Decision
			decisions, results[i] = storecall.New(backend).TakeAll(context.Background(),
				store.Request{Key: store.Key{Subject: "hot", Name: "n"}, Limit: hour, Cost: 1},
				store.Request{Key: store.Key{Subject: "wide", Name: "n"}, Limit: wide, Cost: 1})
			allowed[i] = results[i] == nil && store.AllAllowed(decisions)
		case 1:
			results[i] = take(backend, store.Key{Subject: "bad", Name: "n"}, hour, 1)
		}
	}, backend.Waiting)
	both := 0
	for i, err := range results {
		switch {
		case i%2 == 1:
			if !errors.Is(err, store.ErrForeign) {
				t.Errorf("caller %d of a foreign value: %v", i, err)
			}
		case err != nil:
			t.Errorf("caller %d: %v", i, err)
		case allowed[i]:
			both++
		}
	}
	if both != 10 {
		t.Errorf("%d were allowed, want 10", both)
	}
	for subject, limit := range map[string]store.Limit{"hot": hour, "wide": wide} {
		d, err := storecall.New(backend).Peek(context.Background(), store.Key{Subject: subject, Name: "n"}, limit, 1)
		if err != nil || d.Used != 10 {
			t.Errorf("%s: %+v, %v; want 10 used", subject, d, err)
		}
	}
}

// together calls call in as many goroutines, and keeps the file from being written until
// all of them wait.
func together(t *testing.T, path string, callers int, call func(i int), waiting func() int) {
	t.Helper()
	release := locked(t, path)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() { call(i) })
	}
	until(t, "all callers wait", func() bool { return waiting() == callers })
	release()
	group.Wait()
}

// A call whose context has ended is not begun.
func TestAnEndedContext(t *testing.T) {
	backend := open(t, filepath.Join(t.TempDir(), "limits.db"))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	budget, cancel := store.BudgetContext(context.Background(), 0)
	defer cancel()
	for op, call := range map[string]func(ctx context.Context) error{
		"take": func(ctx context.Context) error {
			_, err := storecall.New(backend).Take(ctx, store.Key{Subject: "u"}, hour, 1)
			return err
		},
		"peek": func(ctx context.Context) error {
			_, err := storecall.New(backend).Peek(ctx, store.Key{Subject: "u"}, hour, 1)
			return err
		},
		"delete": func(ctx context.Context) error {
			_, _, err := backend.Delete(ctx, admin.Record{Key: store.Key{Subject: "u", Name: "n"}})
			return err
		},
		"scan": func(ctx context.Context) error {
			for _, err := range backend.Scan(ctx, admin.Query{}) {
				return err
			}
			return nil
		},
	} {
		if err := call(ended); !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, context.Canceled) || store.IsAway(err) {
			t.Errorf("%s of a caller that left: %v", op, err)
		}
		if err := call(budget); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrGaveUp) {
			t.Errorf("%s out of budget: %v", op, err)
		}
	}
	if n := used(t, backend, store.Key{Subject: "u"}); n != 0 {
		t.Errorf("%d are used", n)
	}
}

// A take is decided at an instant between its call and its answer, also if it joins a transaction that has begun.
func TestTakesTogetherAreDecidedWhileTheyWait(t *testing.T) {
	var now atomic.Int64 // microseconds; it moves on whenever somebody looks
	now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	backend := open(t, filepath.Join(t.TempDir(), "limits.db"),
		filestore.WithClock(func() time.Time { return time.UnixMicro(now.Add(1)) }))
	var callers sync.WaitGroup
	for range 32 {
		callers.Go(func() {
			for range 20 {
				called := now.Add(1)
				d, err := storecall.New(backend).Take(t.Context(), store.Key{Subject: "u", Name: "n"}, hour, 1)
				if at := d.At.Time().UnixMicro(); err != nil || at < called || at > now.Load() {
					t.Errorf("called at %d, decided at %d, answered at %d: %v", called, at, now.Load(), err)
				}
			}
		})
	}
	callers.Wait()
}
