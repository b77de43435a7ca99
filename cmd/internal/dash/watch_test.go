package dash

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// hurry lets time pass at once, but for a moment, so that a loop that waits does not keep the processor from others.
func hurry(ctx context.Context, _ time.Duration) error { return sys.Sleep(ctx, time.Millisecond) }

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
	go func() {
		ended <- Watch(ctx, Options{Store: backend, Query: admin.Query{Subjects: all}, Denials: backend, Overrides: backend, MaxKeys: 10,
			Refresh: time.Second, Now: time.Now, Sleep: hurry, Where: "memory"},
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

// endlessKeys is a store whose scans go on until they are ended.
type endlessKeys struct {
	*memorystore.Store
	begun, ended chan bool
}

func (s endlessKeys) Scan(ctx context.Context, _ admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		s.begun <- true
		<-ctx.Done()
		s.ended <- true
		yield(admin.Entry{}, ctx.Err())
	}
}

// A scan that is going on when the last one leaves ends, and who comes then begins another: one, and not several.
func TestWatchScansForNobody(t *testing.T) {
	backend := endlessKeys{memorystore.New(), make(chan bool), make(chan bool)}
	all, err := store.ParsePattern("*")
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	var wanted atomic.Bool
	wanted.Store(true)
	watched := make(chan error, 1)
	go func() {
		watched <- Watch(ctx, Options{Store: backend, Query: admin.Query{Subjects: all}, MaxKeys: 10, Refresh: time.Second, Now: time.Now,
			Sleep: hurry, Where: "memory"}, wanted.Load, func(*Look) {})
	}()
	await := func(what string, is <-chan bool) {
		t.Helper()
		select {
		case <-is:
		case <-time.After(time.Minute):
			t.Fatalf("no scan %s", what)
		}
	}
	for range 3 {
		await("begins", backend.begun)
		wanted.Store(false)
		await("ends", backend.ended)
		wanted.Store(true)
	}
	await("begins", backend.begun)
	leave()
	for open := true; open; { // what is left of it ends with the loop
		select {
		case <-backend.begun:
			t.Error("two scans go on at once")
		case <-backend.ended:
			open = false
		}
	}
	if err := <-watched; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
