package filestore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Several stores, as of several processes, deny and count in one file.
func TestDenialsOfOneFileAddUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	open := func() *filestore.Store {
		backend, err := filestore.New(path)
		if err != nil {
			t.Fatal(err)
		}
		return backend
	}
	key, limit := store.Key{Subject: "user:42"}, store.Limit{Count: 1, Period: time.Hour}
	var writers sync.WaitGroup
	for range 4 {
		backend := layers.WithDenialLog(open(), layers.DenialLog{Every: time.Millisecond, OnError: func(err error) { t.Error(err) }})
		writers.Go(func() {
			for range 50 {
				if _, err := storecall.New(backend).Take(context.Background(), key, limit, 1); err != nil {
					t.Error(err)
				}
			}
			backend.Close()
		})
	}
	writers.Wait()
	reader := open()
	defer reader.Close()
	d, err := reader.Denials(context.Background(), time.Hour)
	if err != nil || len(d.Rows) != 1 || d.Rows[0].Count != 4*50-1 || !d.Exact() {
		t.Errorf("%+v, %v", d, err)
	}
}

// What overrides let through is in a table of its own, which is made when it has a row: the file of an older limitctl has
// none. If somebody else made it, it stays as it is, and so do the denials.
func TestTheTableOfWhatOverridesLetThrough(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend, err := filestore.New(path)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	row := admin.Denied{Key: store.Key{Subject: "u", Name: "n"}, Count: 1}
	through := []admin.LetThrough{{Override: "5y7qnswd", Count: 2}}
	read := func(want []admin.LetThrough) {
		t.Helper()
		if d, err := backend.Denials(t.Context(), time.Hour); err != nil || len(d.Rows) != 1 || !slices.Equal(d.LetThrough, want) {
			t.Errorf("%+v, %v; want %+v", d, err, want)
		}
	}
	if err := backend.AddDenials(t.Context(), admin.Denials{Rows: []admin.Denied{row}}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("SELECT count(*) FROM let_through_steps"); err == nil {
		t.Error("the table is made without a row")
	}
	read(nil)
	if err := backend.AddDenials(t.Context(), admin.Denials{LetThrough: through}); err != nil {
		t.Fatal(err)
	}
	read(through)
	if _, err := db.Exec("UPDATE let_through_steps SET count = 0"); err != nil {
		t.Fatal(err)
	}
	if d, err := backend.Denials(t.Context(), time.Hour); !errors.Is(err, store.ErrForeign) {
		t.Errorf("a row of somebody else: %+v, %v", d, err)
	}
	const others = "DROP TABLE let_through_steps; CREATE TABLE let_through_steps (a); INSERT INTO let_through_steps VALUES (1)"
	if _, err := db.Exec(others); err != nil {
		t.Fatal(err)
	}
	d := admin.Denials{Rows: []admin.Denied{row}, LetThrough: through}
	if err := backend.AddDenials(t.Context(), d); err == nil || store.IsAway(err) {
		t.Errorf("added to a table of somebody else: %v", err)
	}
	var rows, denied int
	counted := db.QueryRow("SELECT count(*), (SELECT max(count) FROM denial_steps) FROM let_through_steps")
	if err := counted.Scan(&rows, &denied); err != nil || rows != 1 || denied != 1 {
		t.Errorf("%d rows and %d denials, %v", rows, denied, err)
	}
}

// A table of that name that somebody else made stays as it is, and limits are decided.
func TestAForeignTableOfDenials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend, err := filestore.New(path)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	key, limit := store.Key{Subject: "user:42"}, store.Limit{Count: 1, Period: time.Hour}
	take := func() error {
		_, err := storecall.New(backend).Take(context.Background(), key, limit, 1)
		return err
	}
	if err := take(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE denial_steps (a); INSERT INTO denial_steps VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	row := admin.Denied{Key: store.Key{Subject: "u", Name: "n"}, Count: 1}
	if err := backend.AddDenials(context.Background(), admin.Denials{Rows: []admin.Denied{row}}); err == nil || store.IsAway(err) {
		t.Errorf("added: %v", err)
	}
	if d, err := backend.Denials(context.Background(), time.Hour); err == nil {
		t.Errorf("read: %+v", d)
	}
	var rows int
	if err := db.QueryRow("SELECT count(*) FROM denial_steps").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
	if err := take(); err != nil {
		t.Error(fmt.Errorf("a take fails: %w", err))
	}
}
