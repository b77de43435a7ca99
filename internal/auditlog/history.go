package auditlog

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"

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
