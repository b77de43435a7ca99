package filestore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// filled returns a store with so many keys of an hour, and what moves its clock.
func filled(t *testing.T, path string, keys int) (backend *filestore.Store, clock func() time.Time, advance func(time.Duration)) {
	t.Helper()
	var ahead atomic.Int64
	begin := time.Now()
	clock = func() time.Time { return begin.Add(time.Duration(ahead.Load())) }
	backend, err := filestore.New(path, filestore.WithClock(clock))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { backend.Close() })
	limit, err := store.ParseLimit("100/1h")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	first := store.Key{Subject: "tenant:0:user:0"}
	if _, err := storecall.New(backend).Take(ctx, first, limit, 50); err != nil {
		t.Fatal(err)
	}
	all, err := store.ParsePattern("*")
	if err != nil {
		t.Fatal(err)
	}
	var value []byte
	for entry, err := range backend.Scan(ctx, admin.Query{Subjects: all, Records: true}) {
		if err != nil {
			t.Fatal(err)
		}
		value = entry.Record.Value
	}
	records := make([]admin.Record, keys)
	for i := range records {
		key := store.Key{Subject: fmt.Sprintf("tenant:%d:user:%d", i%20, i), Name: "token-bucket/1h"}
		records[i] = admin.Record{Key: key, Value: value, Expires: begin.Add(time.Hour)}
	}
	if _, err := backend.Import(ctx, false, records...); err != nil {
		t.Fatal(err)
	}
	return backend, clock, func(d time.Duration) { ahead.Add(int64(d)) }
}

// Expired rows go although no key is new, and the file shrinks while it is used.
func TestSpaceIsGivenBack(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "limits.db")
	backend, clock, advance := filled(t, path, 20_000)
	day, err := store.ParseLimit("1000000/1d")
	if err != nil {
		t.Fatal(err)
	}
	take := func() {
		t.Helper()
		if _, err := storecall.New(backend).Take(ctx, store.Key{Subject: "always"}, day, 1); err != nil {
			t.Fatal(err)
		}
	}
	take()
	if err := backend.Close(); err != nil {
		t.Fatal(err)
	}
	before := size(t, path)
	if backend, err = filestore.New(path, filestore.WithClock(clock)); err != nil {
		t.Fatal(err)
	}
	advance(3 * time.Hour)
	for takes := 1; ; takes++ {
		time.Sleep(10 * time.Millisecond) // the process tidies up no more often
		take()
		if takes%20 > 0 {
			continue
		}
		health, err := backend.Health(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !health.Shrinks {
			t.Fatal("a new file cannot shrink")
		}
		if health.Lapsed == 0 && health.Free < 2<<20 && health.Keys == 1 {
			break
		}
		if takes == 1000 {
			t.Fatalf("after %d takes %d expired rows and %d free bytes are left", takes, health.Lapsed, health.Free)
		}
	}
	if err := backend.Close(); err != nil {
		t.Fatal(err)
	}
	if after := size(t, path); after > before*2/3 {
		t.Errorf("the file had %d bytes and has %d", before, after)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// A pattern that begins with characters looks at the keys that begin so, and an exact subject
// at its own: that is how many the progress tells.
func TestScanLooksAtItsKeysOnly(t *testing.T) {
	backend, _, _ := filled(t, filepath.Join(t.TempDir(), "limits.db"), 2000)
	for pattern, want := range map[string]struct{ found, looked int }{
		"tenant:3:*":       {100, 100},
		"tenant:3:user:3":  {1, 1},
		"tenant:3:user:*3": {100, 100},
		"tenant:1*:user:3": {0, 1100},
		"*:user:1999":      {1, 2000},
		"tenant:[34]:*":    {200, 2000},
		"tenant:3:user:44": {0, 0},
	} {
		subjects, err := store.ParsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		var looked, total int64
		found := 0
		query := admin.Query{Subjects: subjects, Progress: func(l, of int64) { looked, total = l, of }}
		for _, err := range backend.Scan(context.Background(), query) {
			if err != nil {
				t.Fatal(err)
			}
			found++
		}
		if found != want.found || looked != int64(want.looked) || total != int64(want.looked) {
			t.Errorf("%s finds %d keys and looks at %d of %d, want %+v", pattern, found, looked, total, want)
		}
	}
}
