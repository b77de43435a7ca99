package auditlog

import (
	"strings"
	"time"
)

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
