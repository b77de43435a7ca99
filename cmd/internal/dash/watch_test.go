package dash

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Watch finds keys and follows them without a terminal, rests while nobody wants to know, and ends with its context.
func TestWatchFollowsRestsAndEnds(t *testing.T) {
	backend := memorystore.New()
	take := func(subject string) {
		t.Helper()
		key := store.Key{Subject: subject, Name: "n"}
		if _, err := storecall.New(backend).Take(t.Context(), key, store.Limit{Count: 10, Period: time.Hour}, 10); err != nil {
			t.Fatal(err)
		}
	}
	take("a")
	all, err := store.ParsePattern("*")
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	var wanted atomic.Bool
	wanted.Store(true)
	looks, asked := make(chan *Look), make(chan bool, 1)
	ended := make(chan error, 1)
	// Time passes at once, and as often as the loop waits, which must not keep the processor from others.
	pause := func(ctx context.Context, _ time.Duration) error {
		timer := time.NewTimer(time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	go func() {
		ended <- Watch(ctx, Options{Store: backend, Query: admin.Query{Subjects: all}, Denials: backend, Overrides: backend, MaxKeys: 10,
			Refresh: time.Second, Now: time.Now, Sleep: pause, Where: "memory"},
			func() bool {
				if !wanted.Load() {
					select {
					case asked <- true:
					default:
					}
				}
				return wanted.Load()
			},
			func(look *Look) {
				select {
				case looks <- look:
				case <-ctx.Done():
				}
			})
	}()
	until := func(what string, is func(*Look) bool) {
		t.Helper()
		for look := range looks {
			if is(look) {
				return
			}
			if t.Context().Err() != nil {
				t.Fatalf("it never tells %s", what)
			}
		}
	}
	until("the key that was there", func(l *Look) bool {
		return l.Coverage.Passes > 0 && len(l.Rows) == 1 && l.Rows[0].Key.Subject == "a" && l.AtLimit == 1 && l.Problem == nil
	})
	wanted.Store(false)
	for resting := false; !resting; {
		select {
		case <-looks:
		case <-asked: // it was told that nobody looks, so the clock has come round once more
			resting = true
		}
	}
	take("b")
	wanted.Store(true)
	until("the key that came meanwhile", func(l *Look) bool { return len(l.Rows) == 2 })
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
