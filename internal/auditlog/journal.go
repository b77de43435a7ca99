package auditlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/lines"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// maxRuns is the default number of runs to read, so that any log is read in bounded memory.
	maxRuns = 10_000
	// keptBad is how many bad lines are named.
	keptBad = 5
)

// Journal reads which runs changed something: from the audit log of this machine, and from that of a store.
type Journal struct {
	// Path is the audit log of this machine; empty to leave it out.
	Path string
	// Store has the other one, which is read within Timeout; nil to leave it out.
	Store   *admin.Tables
	Timeout time.Duration
}

// Query selects runs.
type Query struct {
	// Most is the most runs to return, the latest; 0 means [maxRuns].
	Most int
	// Keep, if set, selects entries, whose Source is set. It should give the same result for both entries of a run.
	Keep func(*Entry) bool
}

// History is what a journal holds.
type History struct {
	Runs []*Entry // the latest runs, in the order of time
	// Bad says which lines are not entries, and are left out: the first few of this machine, and how many there are.
	Bad []error
	// StoreError is why the part of the store is not whole.
	StoreError error
	undone     map[place]*Undone // the backups that were brought back, also by runs that are left out
}

// Read reads the latest runs. It leaves out lines that are not entries or are far too long. A file that is not there is
// empty.
func (j *Journal) Read(ctx context.Context, q Query) (*History, error) {
	q.Most = cmp.Or(q.Most, maxRuns)
	c := &collection{Query: q, found: History{Runs: []*Entry{}, undone: map[place]*Undone{}}}
	if j.Path != "" {
		if err := j.readFile(ctx, c); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if j.Store != nil {
		j.readStore(ctx, c)
	}
	h := &c.found
	h.Runs = latest(fold(h.Runs), q.Most)
	h.mark()
	return h, nil
}

func (j *Journal) readFile(ctx context.Context, c *collection) error {
	file, err := files.Open(j.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	bad := 0
	for reader := lines.NewReader(file, maxLine); ; {
		line, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		entry := new(Entry)
		if err := entry.read(&line); err == nil {
			c.add(entry, Machine)
		} else if bad++; bad <= keptBad { // for example after a full disk
			err = fmt.Errorf("%s:%d is not an entry of the audit and is left out: %w", j.Path, line.Number, err)
			c.found.Bad = append(c.found.Bad, err)
		}
	}
	if bad > keptBad {
		c.found.Bad = append(c.found.Bad, fmt.Errorf("%d lines in all are not entries of the audit and are left out",
			bad))
	}
	return nil
}

func (j *Journal) readStore(ctx context.Context, c *collection) {
	ctx, cancel := store.BudgetContext(ctx, j.Timeout)
	defer cancel()
	texts, bad, err := j.Store.ReadJournal(ctx, admin.JournalKept)
	for i := range texts {
		entry := new(Entry)
		if entry.parse([]byte(texts[i].Text)) == nil {
			c.add(entry, Store)
		} else {
			bad++
		}
	}
	c.found.StoreError = err
	if bad > 0 {
		c.found.Bad = append(c.found.Bad,
			fmt.Errorf("%s in the journal of the store are not of the audit and are left out",
				output.Count(bad, "text")))
	}
}

// collection collects entries, and keeps no more of them in memory than needed.
type collection struct {
	Query
	found History
}

func (c *collection) add(e *Entry, source Source) {
	h := &c.found
	e.Source = source
	h.note(e)
	if c.Keep != nil && !c.Keep(e) {
		return
	}
	if h.Runs = append(h.Runs, e); len(h.Runs) >= 4*c.Most+4 { // runs that have begun in between can still end
		h.Runs = latest(fold(h.Runs), 2*c.Most)
	}
}

// fold merges the entries of each run, in the place of the last one: it keeps the one with the outcome, the first
// if there are several.
func fold(entries []*Entry) []*Entry {
	last := map[string]int{}
	folded := make([]*Entry, 0, len(entries))
	for _, e := range entries {
		i, known := last[e.Run]
		if e.Run == "" || !known {
			last[e.Run] = len(folded)
			folded = append(folded, e)
			continue
		}
		before := folded[i]
		source := before.Source
		if e.Source != source {
			source = Both
		}
		if before.Outcome == Begun && e.Outcome != Begun {
			folded[i] = nil
			last[e.Run] = len(folded)
			folded = append(folded, e)
			before = e
		}
		before.Source = source
	}
	return slices.DeleteFunc(folded, func(e *Entry) bool { return e == nil })
}

// latest returns the latest runs by their time, at most most.
func latest(runs []*Entry, most int) []*Entry {
	slices.SortStableFunc(runs, func(a, b *Entry) int { return a.Time.Compare(b.Time) })
	return slices.Delete(runs, 0, max(0, len(runs)-most))
}

// Undone is the run that brought back what another run changed.
type Undone struct {
	Run     string    `json:"run,omitempty"` // its name, as that of an entry
	Time    time.Time `json:"time"`          // when it ended
	User    string    `json:"user"`          // who ran it
	Command string    `json:"command"`       // undo or restore
	// Outcome is done if all of it came back, else partly: some keys were used since and left, for example.
	Outcome Outcome `json:"outcome"`
}

// Text says what became of the run, without when and by whom.
func (u *Undone) Text() string {
	if u.Outcome != Done {
		return "undone in part"
	}
	return "undone"
}

// BringsBack reports whether a run restores a backup, whose path is its selection.
func (e *Entry) BringsBack() bool { return e.Command == "restore" || e.Command == "undo" }

// place is a backup on a machine, and a store. A restore into another store brings back nothing there.
type place struct{ host, store, path string }

// note notes a run that brought a backup back. One that brought back all of it counts before one that did not, and a
// later one before an earlier one.
func (h *History) note(e *Entry) {
	if !e.BringsBack() || e.Outcome != Done && (e.Outcome != Partly || e.Changed == 0) {
		return
	}
	at := place{e.Host, e.Store, e.Selection}
	was, done := h.undone[at], e.Outcome == Done
	if was == nil || done && was.Outcome != Done || done == (was.Outcome == Done) && !was.Time.After(e.Time) {
		h.undone[at] = &Undone{Run: e.Run, Time: e.Time, User: e.User, Command: e.Command, Outcome: e.Outcome}
	}
}

// mark says of each run which one has brought back what it changed.
func (h *History) mark() {
	for _, e := range h.Runs {
		undone := h.undone[place{e.Host, e.Store, e.Backup}]
		// else the run went on after it, or is another one with a file of that name
		if undone != nil && !undone.Time.Before(e.Time) {
			e.Undone = undone
		}
	}
}
