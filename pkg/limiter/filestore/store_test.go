package filestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Sequences: 30,
		New: func(tb testing.TB, clock func() time.Time) store.Store {
			var options []filestore.Option
			if clock != nil {
				options = append(options, filestore.WithClock(clock))
			}
			return open(tb, filepath.Join(tb.TempDir(), "limits.db"), options...)
		},
		Dump: func(tb testing.TB, backend store.Store) string {
			return dump(tb, backend.(*filestore.Store).Path())
		},
		Plant: func(tb testing.TB, backend store.Store, key store.Key, value string) func() bool {
			file := backend.(*filestore.Store).Path()
			// The schema is there once something was charged.
			if err := take(backend, store.Key{Subject: "somebody"}, store.Limit{Count: 1000, Period: time.Hour}, 1); err != nil {
				tb.Fatal(err)
			}
			execute(tb, file, "INSERT INTO limits VALUES (?, ?, ?, ?, ?)", store.DefaultPrefix, key.Subject, key.Name,
				[]byte(value), int64(1)<<60)
			before := dump(tb, file)
			return func() bool { return strings.Contains(dump(tb, file), rowText(key, []byte(value))) && before != "" }
		},
	})
}

func open(tb testing.TB, path string, options ...filestore.Option) *filestore.Store {
	tb.Helper()
	backend, err := filestore.New(path, options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := backend.Close(); err != nil {
			tb.Error(err)
		}
	})
	return backend
}

// raw opens the file beside the store, as another process would.
func raw(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		tb.Fatal(err)
	}
	return db
}

func execute(tb testing.TB, path, statement string, args ...any) {
	tb.Helper()
	db := raw(tb, path)
	defer db.Close()
	if _, err := db.Exec(statement, args...); err != nil {
		tb.Fatal(err)
	}
}

// dump writes down every row.
func dump(tb testing.TB, path string) string {
	tb.Helper()
	db := raw(tb, path)
	defer db.Close()
	rows, err := db.Query("SELECT subject, name, record, unused_at FROM limits ORDER BY subject, name")
	if err != nil {
		if strings.Contains(err.Error(), "no such table") || strings.Contains(err.Error(), "unable to open") {
			return ""
		}
		tb.Fatal(err)
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var key store.Key
		var record []byte
		var unusedAt int64
		if err := rows.Scan(&key.Subject, &key.Name, &record, &unusedAt); err != nil {
			tb.Fatal(err)
		}
		fmt.Fprintf(&b, "%s until %d\n", rowText(key, record), unusedAt)
	}
	return b.String()
}

func rowText(key store.Key, record []byte) string {
	return fmt.Sprintf("%q %q %x", key.Subject, key.Name, record)
}

func take(backend store.Store, key store.Key, limit store.Limit, cost int64) error {
	_, err := storecall.New(backend).Take(context.Background(), key, limit, cost)
	return err
}
