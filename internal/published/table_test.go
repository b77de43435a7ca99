package published

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// table is a store's table, which the test can read and spoil.
type table struct {
	admin.Tables
	head     string
	versions map[int64]string
	lines    []string
	placed   map[int]admin.TableRecord
	err      error // of every call
	foreign  bool  // each record is larger than any of ours
	reads    int   // of versions
	large    int   // those of them that return a record
	heads    int   // reads of the head
}

func newTable() *table {
	t := &table{versions: map[int64]string{}, placed: map[int]admin.TableRecord{}}
	t.SideTable = side{table: t}
	return t
}

type side struct {
	admin.SideTable
	*table
}

func (t side) Get(_ context.Context, kind admin.Table, names ...string) (found []admin.TableRecord, _ store.Instant,
	_ error) {
	for _, name := range names {
		number, _ := strconv.ParseInt(name, 10, 64)
		r := admin.TableRecord{Name: name}
		switch {
		case kind == admin.ReportTable:
			r = t.placed[int(number)]
		case name == "":
			t.heads++
			r.Value = t.head
		default:
			r.Value = t.versions[number]
			if t.reads++; t.foreign || r.Value != "" {
				t.large++
			}
			if t.foreign {
				return nil, 0, &store.ForeignError{
					StoreKey: "v", Holds: "a value that is not a published configuration"}
			}
		}
		if r.Value != "" {
			found = append(found, r)
		}
	}
	return found, 0, t.err
}

func (t side) Lines(_ context.Context, _ admin.List, most int) (lines []admin.JournalEntry, damaged int, err error) {
	for _, line := range t.lines[max(0, len(t.lines)-most):] {
		lines = append(lines, admin.JournalEntry{At: time.Unix(1, 0), Text: line})
	}
	return lines, 0, t.err
}

func (t side) Change(_ context.Context, c *admin.Change) (bool, error) {
	if err := errors.Join(t.err, c.Check()); err != nil {
		return false, err
	}
	if c.Table == admin.ReportTable {
		place, err := strconv.Atoi(c.Guard)
		if t.placed[place].Value != c.Was {
			return false, err
		}
		t.placed[place] = c.Set[0]
		return true, err
	}
	if c.Was != t.head {
		return false, nil
	}
	for _, r := range c.Set {
		if number, err := strconv.ParseInt(r.Name, 10, 64); err == nil {
			t.versions[number] = r.Value
		} else {
			t.head = r.Value
		}
	}
	for _, name := range c.Drop {
		number, _ := strconv.ParseInt(name, 10, 64)
		delete(t.versions, number)
	}
	t.lines = append(t.lines, c.Line)
	return true, nil
}

// limited is a configuration with a limit.
func limited(n int) []byte {
	return fmt.Appendf(nil, "policies:\n  login:\n    limits: [{name: ip, by: [ip], limit: %d/1m}]\n", n)
}

// publish publishes a text.
func (t *table) publish(tb testing.TB, text []byte) *Version {
	tb.Helper()
	s, err := Read(context.Background(), &t.Tables)
	if err != nil {
		tb.Fatal(err)
	}
	v := &Version{By: "anna", Reason: "a test", Text: text}
	if done, err := t.Change(context.Background(), s.Next(v)); err != nil || !done {
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
		Table: &r.table.Tables,
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
		Cache: Cache{"kept", func(string, int) ([]byte, error) { return []byte(r.kept), nil },
			func(_ string, record []byte) error {
				if r.full {
					return errors.New("no room")
				}
				r.kept = string(record)
				return nil
			}},
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
