package filestore_test

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Several stores, as of several processes, deny and count in one file.
func TestDenialsOfOneFileAddUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	key, limit := store.Key{Subject: "user:42"}, store.Limit{Count: 1, Period: time.Hour}
	var writers sync.WaitGroup
	for range 4 {
		file := open(t, path)
		backend := layers.Stack(file, layers.Layers{DenialLog: layers.CollectDenials(file, store.DenialLog{Every: time.Millisecond},
			&layers.Observer{OnDenialLog: func(err error) { t.Error(err) }})})
		writers.Go(func() {
			for range 50 {
				if err := take(backend, key, limit, 1); err != nil {
					t.Error(err)
				}
			}
			backend.Close()
		})
	}
	writers.Wait()
	d, err := open(t, path).Denials(t.Context(), time.Hour)
	if err != nil || len(d.Rows) != 1 || d.Rows[0].Count != 4*50-1 || !d.Exact() {
		t.Errorf("%+v, %v", d, err)
	}
}

// What overrides let through is in a table of its own, which is made when it has a row: the file of an older limitctl has
// none. If somebody else made it, it stays as it is, and so do the denials.
func TestTheTableOfWhatOverridesLetThrough(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend, db := open(t, path), raw(t, path)
	row := admin.Denied{Key: store.Key{Subject: "u", Name: "n"}, Count: 1}
	through := []admin.LetThrough{{Override: "5y7qnswd", Count: 2}}
	for i, d := range []admin.Denials{{Rows: []admin.Denied{row}}, {LetThrough: through}} {
		if err := backend.AddDenials(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("SELECT count(*) FROM let_through_steps"); (err == nil) != (i > 0) {
			t.Errorf("after %+v the table says %v", d, err)
		}
		got, err := backend.Denials(t.Context(), time.Hour)
		if err != nil || len(got.Rows) != 1 || !slices.Equal(got.LetThrough, d.LetThrough) {
			t.Errorf("%+v, %v; want %+v", got, err, d)
		}
	}
	execute(t, path, "UPDATE let_through_steps SET count = 0")
	if d, err := backend.Denials(t.Context(), time.Hour); !errors.Is(err, store.ErrForeign) {
		t.Errorf("a row of somebody else: %+v, %v", d, err)
	}
	execute(t, path, "DROP TABLE let_through_steps")
	execute(t, path, "CREATE TABLE let_through_steps (a); INSERT INTO let_through_steps VALUES (1)")
	err := backend.AddDenials(t.Context(), admin.Denials{Rows: []admin.Denied{row}, LetThrough: through})
	if err == nil || store.IsAway(err) {
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
	backend := open(t, path)
	key := store.Key{Subject: "user:42", Name: "n"}
	if err := take(backend, key, hour, 1); err != nil {
		t.Fatal(err)
	}
	execute(t, path, "CREATE TABLE denial_steps (a); INSERT INTO denial_steps VALUES (1)")
	err := backend.AddDenials(t.Context(), admin.Denials{Rows: []admin.Denied{{Key: key, Count: 1}}})
	if err == nil || store.IsAway(err) {
		t.Errorf("added: %v", err)
	}
	if d, err := backend.Denials(t.Context(), time.Hour); err == nil {
		t.Errorf("read: %+v", d)
	}
	var rows int
	if err := raw(t, path).QueryRow("SELECT count(*) FROM denial_steps").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
	if err := take(backend, key, hour, 1); err != nil {
		t.Errorf("a take fails: %v", err)
	}
}
