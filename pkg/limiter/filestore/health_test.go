package filestore_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestHealth(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "limits.db")
	now := time.Now()
	backend := open(t, path, filestore.WithClock(func() time.Time { return now }))
	if h, err := backend.Health(ctx); err != nil || h.Exists {
		t.Errorf("of no file: %+v, %v", h, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("looking at a file made it")
	}
	for i, period := range []time.Duration{time.Minute, time.Hour, time.Hour} {
		key := store.Key{Subject: "u", Name: string(rune('a' + i))}
		must(t, take(backend, key, store.Limit{Count: 1, Period: period}, 1))
	}
	now = now.Add(2 * time.Minute)
	h, err := backend.Health(ctx)
	if err != nil || !h.Exists || h.Bytes == 0 || h.JournalMode != "wal" || h.Damage != "" || h.NotWritable != nil ||
		h.Keys != 2 {
		t.Errorf("of a file with 3 keys, one lapsed: %+v, %v", h, err)
	}
	if again, err := backend.Health(ctx); err != nil || again.Keys != 2 {
		t.Errorf("looking at it changed it: %+v, %v", again, err)
	}
	backend.Close()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	if _, err := file.WriteAt(make([]byte, 4096), 4096); err != nil { // the second page, a table
		t.Fatal(err)
	}
	if h, err := backend.Health(ctx); err == nil && h.Damage == "" {
		t.Errorf("of a file with a page of zeros: %+v", h)
	}
}
