package filestore_test

import (
	"context"
	"errors"
	"path/filepath"
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
	if err != nil {
		t.Fatal(err)
	}
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
