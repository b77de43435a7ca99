package filestore_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

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
		if err := call(ended); !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, context.Canceled) ||
			store.IsAway(err) {
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
