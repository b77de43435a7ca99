package filestore_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// fill gives a file so many keys of 20 tenants, in use for an hour.
func fill(t *testing.T, path string, keys int) {
	t.Helper()
	backend := open(t, path)
	if err := take(backend, store.Key{Subject: "first"}, store.Limit{Count: 100, Period: time.Hour}, 100); err != nil {
		t.Fatal(err)
	}
	execute(t, path, `WITH RECURSIVE n(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < ? - 1)
		INSERT INTO limits SELECT prefix, format('tenant:%d:user:%d', i % 20, i), name, record, unused_at FROM limits, n`, keys)
	execute(t, path, "DELETE FROM limits WHERE subject = 'first'")
	if err := backend.Close(); err != nil {
		t.Fatal(err)
	}
}

// Expired rows go although no key is new, and the file shrinks while it is used.
func TestSpaceIsGivenBack(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "limits.db")
	fill(t, path, 12_000)
	before := size(t, path)
	backend := open(t, path, filestore.WithClock(func() time.Time { return time.Now().Add(3 * time.Hour) }))
	for takes := 1; ; takes++ {
		time.Sleep(10 * time.Millisecond) // the process tidies up no more often
		if err := take(backend, store.Key{Subject: "always"}, store.Limit{Count: 1e6, Period: 24 * time.Hour}, 1); err != nil {
			t.Fatal(err)
		}
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
	path := filepath.Join(t.TempDir(), "limits.db")
	fill(t, path, 2000)
	backend := open(t, path)
	for pattern, want := range map[string]struct{ found, looked int }{
		"tenant:3:*":      {100, 100},
		"tenant:3:user:3": {1, 1},
		"*:user:1999":     {1, 2000},
		"tenant:[34]:*":   {200, 2000},
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
