package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// awayTable is a store's table that can be away.
type awayTable struct {
	admin.SideTable
	away bool
	left time.Duration // of the last report
}

func (t *awayTable) Change(ctx context.Context, c *admin.Change) (bool, error) {
	if c.Table == admin.ReportTable {
		t.left = c.Set[0].Left
	}
	return t.SideTable.Change(ctx, c)
}

func (t *awayTable) Get(ctx context.Context, table admin.Table, names ...string) ([]admin.TableRecord, store.Instant, error) {
	if t.away && table == admin.ConfigTable {
		return nil, 0, store.ErrUnavailable
	}
	return t.SideTable.Get(ctx, table, names...)
}

// Each change of what is in force is told once, also the first sound version after one that cannot be used, and the log
// tells a store that is away from a version that cannot be used.
func TestAPublishedVersionIsToldOnce(t *testing.T) {
	backend, err := filestore.New(filepath.Join(t.TempDir(), "limits.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	table := &awayTable{SideTable: backend.SideTable}
	tables := &admin.Tables{SideTable: table}
	publish := func(text string) {
		t.Helper()
		s, err := published.Read(t.Context(), tables)
		if err != nil {
			t.Fatal(err)
		}
		done, err := table.Change(t.Context(), s.Next(&published.Version{By: "anna", Reason: "a test", Text: []byte(text)}))
		if err != nil || !done {
			t.Fatal(done, err)
		}
	}
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	settings := published.Settings{Table: tables, Now: now, Timeout: time.Minute, Process: published.Process{Name: "gate"}}
	var told, applied []string
	var log bytes.Buffer
	r := &Reloader{
		Config:   &config.Config{},
		OnReload: func(_ string, err error) { told = append(told, fmt.Sprint(err == nil)) },
		Describe: func(err error) string { return err.Error() },
		Log:      slog.New(slog.NewTextHandler(&log, nil)),
		Now:      now,
	}
	if err := r.BeginPublished(t.Context(), settings, nil); !errors.Is(err, store.ErrInvalid) || table.left > time.Second {
		t.Errorf("before the first version: %v, and the process is reported for %s", err, table.left)
	}
	publish(withLimit(1))
	if err := r.BeginPublished(t.Context(), settings, nil); err != nil {
		t.Fatal(err)
	}
	r.Apply = func(c *config.Config) { applied = append(applied, limitOf(c)) }
	for _, step := range []struct {
		what          string
		do            func()
		told, applied string
		stale         bool
		says          string
	}{
		{"nothing new", func() {}, "[]", "[]", false, ""},
		{"another version", func() { publish(withLimit(2)) }, "[true]", "[2]", false, "in force\" changed=true"},
		{"a broken one", func() { publish("policies: {login: {}}\n") }, "[false]", "[]", true,
			"cannot be used; the old one stays in force"},
		{"a sound one", func() { publish(withLimit(3)) }, "[true]", "[3]", false, "in force\" changed=true"},
		{"away", func() { table.away = true }, "[false]", "[]", true,
			"the old one stays in force\" error=\"store unavailable"},
		{"back", func() { table.away = false }, "[true]", "[]", false, "in force\" changed=false"},
	} {
		told, applied = nil, nil
		log.Reset()
		step.do()
		for range 3 {
			r.Refresh(t.Context(), false)
		}
		if fmt.Sprint(told) != step.told || fmt.Sprint(applied) != step.applied || (r.State().StaleSince != nil) != step.stale {
			t.Errorf("%s: told %v, applied %v, %+v", step.what, told, applied, r.State())
		}
		if !strings.Contains(log.String(), step.says) {
			t.Errorf("%s: the log has\n%s", step.what, &log)
		}
	}
}
