package filestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
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
			if err := take(backend, store.Key{Subject: "somebody"}, store.Limit{Count: 1000, Period: time.Hour},
				1); err != nil {
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
	must(tb, err)
	tb.Cleanup(func() {
		if err := backend.Close(); err != nil {
			tb.Error(err)
		}
	})
	return backend
}

// raw opens the file beside the store, as another process would, until the test ends.
func raw(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=synchronous(off)")
	must(tb, err)
	db.SetMaxOpenConns(1)
	tb.Cleanup(func() { db.Close() })
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

// locked keeps other processes from writing the file, until the function it returns is called.
func locked(tb testing.TB, path string) (release func()) {
	tb.Helper()
	other := raw(tb, path)
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		tb.Fatal(err)
	}
	return func() {
		if _, err := other.Exec("COMMIT"); err != nil {
			tb.Error(err)
		}
	}
}

// dumping has a connection for each file that is dumped, as the suite does that often.
var dumping sync.Map

// dump writes down every row.
func dump(tb testing.TB, path string) string {
	tb.Helper()
	db, has := dumping.Load(path)
	if !has {
		db = raw(tb, path)
		dumping.Store(path, db)
	}
	rows, err := db.(*sql.DB).Query("SELECT subject, name, record, unused_at FROM limits ORDER BY subject, name")
	if err != nil {
		if strings.Contains(err.Error(), "no such table") {
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
		must(tb, rows.Scan(&key.Subject, &key.Name, &record, &unusedAt))
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

func used(tb testing.TB, backend store.Store, key store.Key) int64 {
	tb.Helper()
	d, err := storecall.New(backend).Peek(context.Background(), key, hour, 1)
	must(tb, err)
	return d.Used
}

var hour = store.Limit{Count: 10, Period: time.Hour}

// until waits for what is to come soon.
func until(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("after a minute it is not so that %s", what)
		}
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
