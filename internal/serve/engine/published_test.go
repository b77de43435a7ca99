package engine

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
)

// publishedTo returns the tables of a new file, and what publishes a text there.
func publishedTo(t *testing.T) (*admin.Tables, func(text string)) {
	t.Helper()
	backend, err := filestore.New(filepath.Join(t.TempDir(), "limits.db"))
	tier.Must(t, err)
	t.Cleanup(func() { backend.Close() })
	tables := &admin.Tables{SideTable: backend.SideTable}
	return tables, func(text string) {
		t.Helper()
		s, err := published.Read(t.Context(), tables)
		tier.Must(t, err)
		done, err := tables.Change(t.Context(),
			s.Next(&published.Version{By: "anna", Reason: "a test", Text: []byte(text)}))
		if err != nil || !done {
			t.Fatal(done, err)
		}
	}
}

// A server that goes by files warns once while something else is published, and reports it; nothing is reported while
// nothing is published.
func TestFilesAreComparedWithWhatIsPublished(t *testing.T) {
	tables, publish := publishedTo(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := newRig(t, filepath.Join(t.TempDir(), "limitctl.yaml"), withLimit(1))
	r.Now = func() time.Time { return now }
	r.Compare(published.Settings{Table: tables, Now: r.Now, Timeout: time.Minute, Process: published.Process{
		Name: "gate"}})
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
		{"the file follows", func() { r.write(withLimit(2)) }, 0, "2"},
		{"the file goes on", func() { r.write(withLimit(3)) }, 1, "file"},
	} {
		r.log.Reset()
		step.do()
		for range 3 {
			now = now.Add(compareEvery)
			r.Refresh(t.Context(), false)
		}
		processes, err := published.Processes(t.Context(), tables)
		tier.Must(t, err)
		reported := ""
		for i := range processes {
			reported += processes[i].VersionText()
		}
		warns := strings.Count(r.log.String(), "another configuration is published")
		if warns != step.warns || reported != step.reported || r.State().StaleSince != nil {
			t.Errorf("%s: %d warnings, want %d; %q reported, want %q; %+v\n%s", step.what, warns, step.warns, reported,
				step.reported,
				r.State(), &r.log)
		}
	}
}
