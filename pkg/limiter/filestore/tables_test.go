package filestore_test

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// An override that somebody else wrote is told of, and leaves the others in force.
func TestForeignOverrides(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	ctx := context.Background()
	set, err := backend.SetOverride(ctx, store.Override{Effect: store.OverrideBlock}, time.Hour)
	must(t, err)
	for _, foreign := range []string{"record = x'00ff'", "record = 'x'", "created = 'x'", "created = -1", "ends = 'x'",
		"ends = x'00'",
		"ends = 9e99", "ends = 9223372036854775807", "ends = ends + 30 * 86400000000", "created = ends",
		"created = created + 40 * 86400000000, ends = ends + 40 * 86400000000"} {
		const another = "INSERT INTO overrides SELECT prefix, '00000000', record, created, ends FROM overrides WHERE " +
			"id = ?"
		execute(t, path, another, set.ID)
		execute(t, path, "UPDATE overrides SET "+foreign+" WHERE id = '00000000'")
		list, version, err := backend.Overrides(ctx)
		if !errors.Is(err, store.ErrForeign) || len(list) != 1 || list[0].ID != set.ID || version == "" {
			t.Errorf("%s: %+v, %q, %v", foreign, list, version, err)
		}
		if _, _, err := backend.RevokeOverride(ctx, "00000000"); !errors.Is(err, store.ErrForeign) {
			t.Errorf("%s: revoked, %v", foreign, err)
		}
		execute(t, path, "DELETE FROM overrides WHERE id = '00000000'")
	}
}

// What is no head of published configurations is replaced.
func TestAForeignHeadIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	publish := func(head string) {
		t.Helper()
		done, err := backend.Change(t.Context(),
			&admin.Change{Table: admin.ConfigTable, Set: []admin.TableRecord{{Value: head}}, Line: "line"})
		if err != nil || !done {
			t.Errorf("%t, %v", done, err)
		}
	}
	publish("head")
	execute(t, path, "UPDATE published SET record = zeroblob(32 << 20)")
	if _, err := backend.Value(t.Context(), admin.ConfigTable, ""); !errors.Is(err, store.ErrForeign) {
		t.Errorf("a head of 32 MB: %v", err)
	}
	publish("next")
	if head, err := backend.Value(t.Context(), admin.ConfigTable, ""); head != "next" || err != nil {
		t.Errorf("%q, %v", head, err)
	}
}

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
	must(t, add())
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
