package auditlog

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/lines"
)

const (
	// maxRuns is the default number of runs to read, so that any log is read in bounded memory.
	maxRuns = 10_000
	// keptBad is the number of bad lines that are kept.
	keptBad = 5
)

// Query selects runs.
type Query struct {
	// Most is the most runs to return, the latest; 0 means [maxRuns].
	Most int
	// Keep, if set, selects entries. It should give the same result for both entries of a run.
	Keep func(*Entry) bool
}

// History is the content of an audit log.
type History struct {
	Runs  []*Entry // the latest runs, in the order of time
	Total int      // the number of runs, including those left out
	Bad   int      // the number of lines that are not entries
	// FirstBad are the first bad lines.
	FirstBad []BadLine
	undone   map[place]*Undone // the backups that were brought back, also by runs that are left out
}

// BadLine is a line that is not an entry.
type BadLine struct {
	Number int64 // from 1, counting from the first line that was read
	Reason error
}

// Read reads the latest runs of a file. It leaves out lines that are not entries or are far too long.
func Read(ctx context.Context, in io.Reader, q Query) (*History, error) {
	c := newCollection(q, Machine)
	reader := lines.NewReader(in, maxLine)
	for {
		line, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return c.history(), nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		entry := new(Entry)
		c.add(entry, line.Number, entry.read(&line)) // for example after a full disk
	}
}

// ReadTexts reads the latest runs of a store's journal, the oldest text first.
func ReadTexts(texts []string, q Query) *History {
	c := newCollection(q, Store)
	for i, text := range texts {
		entry := new(Entry)
		c.add(entry, int64(i+1), entry.parse([]byte(text)))
	}
	return c.history()
}

// Merge returns the runs of two histories, each run once.
func Merge(machine, store *History, most int) *History {
	m := &History{Bad: machine.Bad + store.Bad}
	both := fold(slices.Concat(machine.Runs, store.Runs))
	m.Total = machine.Total + store.Total - (len(machine.Runs) + len(store.Runs) - len(both))
	m.Runs = latest(both, cmp.Or(most, maxRuns))
	m.undone = maps.Clone(machine.undone)
	if m.undone == nil {
		m.undone = map[place]*Undone{}
	}
	for at, undone := range store.undone {
		m.undone[at] = later(m.undone[at], undone)
	}
	m.mark()
	return m
}

// collection collects entries, and keeps no more of them in memory than needed.
type collection struct {
	Query
	source  Source
	found   History
	dropped int
}

func newCollection(q Query, source Source) *collection {
	q.Most = cmp.Or(q.Most, maxRuns)
	return &collection{Query: q, source: source, found: History{Runs: []*Entry{}}}
}

// add adds an entry, or a bad line if there is a reason.
func (c *collection) add(e *Entry, number int64, reason error) {
	h := &c.found
	if reason != nil {
		if h.Bad++; h.Bad <= keptBad {
			h.FirstBad = append(h.FirstBad, BadLine{number, reason})
		}
		return
	}
	h.note(e)
	if c.Keep != nil && !c.Keep(e) {
		return
	}
	e.Source = c.source
	if h.Runs = append(h.Runs, e); len(h.Runs) >= 4*c.Most+4 { // runs that have begun in between can still end
		h.Runs = fold(h.Runs)
		surplus := max(0, len(h.Runs)-2*c.Most)
		c.dropped += surplus
		h.Runs = slices.Delete(h.Runs, 0, surplus)
	}
}

func (c *collection) history() *History {
	h := &c.found
	h.Runs = fold(h.Runs)
	h.Total = len(h.Runs) + c.dropped
	h.Runs = latest(h.Runs, c.Most)
	h.mark()
	return h
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

// PlainName is the path that a backup had before it was compressed.
func PlainName(path string) string { return strings.TrimSuffix(path, ".gz") }

// place is a backup on a machine, and a store. A restore into another store brings back nothing there.
type place struct{ host, store, path string }

// note notes a run that brought a backup back. One that brought back all of it counts before one that did not, and a later
// one before an earlier one.
func (h *History) note(e *Entry) {
	if !e.BringsBack() || e.Outcome != Done && (e.Outcome != Partly || e.Changed == 0) {
		return
	}
	if h.undone == nil {
		h.undone = map[place]*Undone{}
	}
	at := place{e.Host, e.Store, PlainName(e.Selection)}
	h.undone[at] = later(h.undone[at], &Undone{Run: e.Run, Time: e.Time, User: e.User, Command: e.Command, Outcome: e.Outcome})
}

// later returns which of two runs that brought the same backup back counts. The first may be nil.
func later(a, b *Undone) *Undone {
	if a != nil && (a.Outcome == Done && b.Outcome != Done || (a.Outcome == Done) == (b.Outcome == Done) && a.Time.After(b.Time)) {
		return a
	}
	return b
}

// mark says of each run which one has brought back what it changed.
func (h *History) mark() {
	for _, e := range h.Runs {
		undone := h.undone[place{e.Host, e.Store, PlainName(e.Backup)}]
		if undone != nil && !undone.Time.Before(e.Time) { // else the run went on after it, or is another one with a file of that name
			e.Undone = undone
		}
	}
}
