package published

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// table is a store's table, which the test can read and spoil.
type table struct {
	head     string
	versions map[int64]string
	lines    []string
	placed   map[int]admin.ConfigReport
	err      error // of every call
	foreign  bool  // each record is larger than any of ours
	reads    int   // of versions
	large    int   // those of them that return a record
	heads    int   // reads of the head
}

func newTable() *table {
	return &table{versions: map[int64]string{}, placed: map[int]admin.ConfigReport{}}
}

func (t *table) ConfigHead(context.Context) (string, error) {
	t.heads++
	return t.head, t.err
}

func (t *table) ConfigVersion(_ context.Context, number int64) (string, error) {
	t.reads++
	if t.foreign || t.versions[number] != "" {
		t.large++
	}
	if t.foreign {
		return "", &store.ForeignError{StoreKey: "v", Holds: "a value that is not a published configuration"}
	}
	return t.versions[number], t.err
}

func (t *table) ConfigHistory(_ context.Context, most int) (entries []admin.JournalEntry, damaged int, err error) {
	for _, line := range t.lines[max(0, len(t.lines)-most):] {
		entries = append(entries, admin.JournalEntry{At: time.Unix(1, 0), Text: line})
	}
	return entries, 0, t.err
}

func (t *table) PublishConfig(_ context.Context, c admin.ConfigChange) (bool, error) {
	if err := errors.Join(t.err, c.Check()); err != nil || c.Was != t.head {
		return false, err
	}
	t.head, t.lines = c.Head, append(t.lines, c.Line)
	t.versions[c.Version] = c.Record
	for _, number := range c.Drop {
		delete(t.versions, number)
	}
	return true, nil
}

func (t *table) ReportConfig(_ context.Context, r admin.ConfigReport) (bool, error) {
	if err := errors.Join(t.err, r.Check()); err != nil {
		return false, err
	}
	if held, is := t.placed[r.Place]; is && held.ID != r.ID {
		return false, nil
	}
	t.placed[r.Place] = r
	return true, nil
}

func (t *table) ConfigReports(context.Context) (reports []admin.ConfigReport, err error) {
	for _, r := range t.placed {
		reports = append(reports, r)
	}
	return reports, t.err
}

// limited is a configuration with a limit.
func limited(n int) []byte {
	return fmt.Appendf(nil, "policies:\n  login:\n    limits: [{name: ip, by: [ip], limit: %d/1m}]\n", n)
}

// publish publishes a text.
func (t *table) publish(tb testing.TB, text []byte) *Version {
	tb.Helper()
	s, err := Read(context.Background(), t)
	if err != nil {
		tb.Fatal(err)
	}
	v := &Version{By: "anna", Reason: "a test", Text: text}
	if done, err := t.PublishConfig(context.Background(), s.Next(v)); err != nil || !done {
		tb.Fatal(done, err)
	}
	return v
}

// rig is a follower of a table in virtual time.
type rig struct {
	*Follower
	*table
	t    *testing.T
	now  time.Time
	used []string // what was put in force
	told []string
	kept string
	not  string // a text that cannot be used
	bug  bool   // it panics

	full  bool     // it can keep nothing
	keeps int      // how often that was tried
	kepts []string // what was told of it
}

func newRig(t *testing.T) *rig {
	r := &rig{table: newTable(), t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	r.begin()
	return r
}

// begin starts the process anew.
func (r *rig) begin() {
	r.Follower = NewFollower(Settings{
		Table: r.table,
		Use: func(v *Version) error {
			if _, err := Parse("published", v.Text); err != nil {
				return err
			}
			if r.bug && v.Number > 1 {
				panic("a bug")
			}
			if r.not != "" && strings.Contains(string(v.Text), r.not) {
				return errors.New("not here")
			}
			r.used = append(r.used, fmt.Sprint(v.Number))
			return nil
		},
		Keep: func(record string) error {
			if r.keeps++; r.full {
				return errors.New("no room")
			}
			r.kept = record
			return nil
		},
		Kept: func() (string, error) {
			if r.kept == "" {
				return "", errors.New("nothing is kept")
			}
			return r.kept, nil
		},
		OnWarning: func(err error) { r.kepts = append(r.kepts, err.Error()) },
		OnError:   func(err error) { r.told = append(r.told, fmt.Sprint(err)) },
		Process:   Process{Name: "checkout", Host: "one"},
		Now:       func() time.Time { return r.now },
		Timeout:   time.Minute,
	})
}

// second lets a second pass, and looks.
func (r *rig) second() error {
	r.now = r.now.Add(time.Second)
	return r.Look(context.Background())
}

// uses checks what was put in force so far.
func (r *rig) uses(what string, want ...string) {
	r.t.Helper()
	if fmt.Sprint(r.used) != fmt.Sprint(want) {
		r.t.Errorf("%s: %v were put in force, want %v; told %q", what, r.used, want, r.told)
	}
}

// says checks what was told last.
func (r *rig) says(what string, times int, want string) {
	r.t.Helper()
	if len(r.told) != times || times > 0 && !strings.Contains(r.told[times-1], want) {
		r.t.Errorf("%s: told %q, want %d times, the last one %q", what, r.told, times, want)
	}
}
