package filestore_test

import (
	"cmp"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The file of an older limitctl lacks tables, and gets them. One that somebody else made stays as it is.
func TestTablesBesideTheLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	key := store.Key{Subject: "user:42", Name: "n"}
	d := admin.Denials{Rows: []admin.Denied{{Key: key, Count: 1}}}
	add := func() error {
		backend := open(t, path)
		_, read := backend.Denials(t.Context(), time.Hour)
		return cmp.Or(read, take(backend, key, hour, 1), backend.AddDenials(t.Context(), d))
	}
	if err := add(); err != nil {
		t.Fatal(err)
	}
	execute(t, path, "DROP TABLE denial_steps")
	if err := add(); err != nil {
		t.Errorf("without a table: %v", err)
	}
	if got, err := open(t, path).Denials(t.Context(), time.Hour); err != nil || len(got.Rows) != 1 ||
		got.Rows[0].Count != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	execute(t, path, "UPDATE denial_steps SET count = -1")
	if err := add(); !errors.Is(err, store.ErrForeign) {
		t.Errorf("with a row of somebody else: %v", err)
	}
	execute(t, path, "DROP TABLE denial_steps")
	execute(t, path, "CREATE TABLE denial_steps (a); INSERT INTO denial_steps VALUES (1)")
	if err := add(); !errors.Is(err, store.ErrRefused) ||
		!strings.Contains(err.Error(), "its table denial_steps is not limitctl's") {
		t.Errorf("with a table of somebody else: %v", err)
	}
	execute(t, path, "UPDATE denial_steps SET a = 2 WHERE a = 1")
}
