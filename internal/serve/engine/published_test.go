package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
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

// publishedTo returns the tables of a new file, and what publishes a text there.
func publishedTo(t *testing.T) (*awayTable, *admin.Tables, func(text string)) {
	t.Helper()
	backend, err := filestore.New(filepath.Join(t.TempDir(), "limits.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { backend.Close() })
	table := &awayTable{SideTable: backend.SideTable}
	tables := &admin.Tables{SideTable: table}
	return table, tables, func(text string) {
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
}

// A server that goes by files warns once while something else is published, and reports it; nothing is reported while
// nothing is published.
func TestFilesAreComparedWithWhatIsPublished(t *testing.T) {
	_, tables, publish := publishedTo(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "limitctl.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(withLimit(1))
	environment := config.Environment{Explicit: path, Getenv: func(string) string { return "" }, ReadFile: os.ReadFile}
	c, err := config.Load(environment)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r := &Reloader{Environment: environment, Config: c, OnReload: func(string, error) {}, Apply: func(*config.Config) {},
		Describe: func(err error) string { return err.Error() }, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Now: func() time.Time { return now }}
	r.BeginFiles()
	r.Compare(published.Settings{Table: tables, Now: r.Now, Timeout: time.Minute, Process: published.Process{Name: "gate"}})
	defer r.Close(context.Background())
	for _, step := range []struct {
		what     string
		do       func()
		warns    int
		reported string // the version
	}{
		{"nothing is published", func() {}, 0, ""},
		{"the same", func() { publish(withLimit(1)) }, 0, "1"},
		{"another one", func() { publish(withLimit(2)) }, 1, "file"},
		{"the file follows", func() { write(withLimit(2)) }, 0, "2"},
		{"the file goes on", func() { write(withLimit(3)) }, 1, "file"},
	} {
		log.Reset()
		step.do()
		for range 3 {
			now = now.Add(compareEvery)
			r.Refresh(t.Context(), false)
		}
		processes, err := published.Processes(t.Context(), tables)
		if err != nil {
			t.Fatal(err)
		}
		reported := ""
		for i := range processes {
			reported += processes[i].VersionText()
		}
		warns := strings.Count(log.String(), "another configuration is published")
		if warns != step.warns || reported != step.reported || r.State().StaleSince != nil {
			t.Errorf("%s: %d warnings, want %d; %q reported, want %q; %+v\n%s", step.what, warns, step.warns, reported, step.reported,
				r.State(), &log)
		}
	}
}

// Each change of what is in force is told once, also the first sound version after one that cannot be used, and the log
// tells a store that is away from a version that cannot be used.
func TestAPublishedVersionIsToldOnce(t *testing.T) {
	table, tables, publish := publishedTo(t)
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
