package report

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// Wrapped is what wrappers around the store saved in a run, and what that cost.
type Wrapped struct {
	// Replicas is how many instances of the wrappers there were, and Wrap what was put
	// around the store, from outside in.
	Replicas int      `json:"replicas"`
	Wrap     []string `json:"wrap"`
	// StoreCalls is the calls of the store, those that gave units back included.
	StoreCalls       int64   `json:"store_calls"`
	CallsPerDecision float64 `json:"store_calls_per_decision"`
	// HeldUnits is the most units of a key that all replicas together may have held ahead.
	HeldUnits int64 `json:"held_units"`
	// ByClockRatio and ByClockUnits are the worst window by when answers were there. Those of
	// the audit are by when the store charged.
	ByClockRatio float64 `json:"worst_window_ratio_by_clock"`
	ByClockUnits int64   `json:"worst_window_units_by_clock"`
	// AllowedBesides and DeniedBesides are the requests of a simulation that were allowed, or
	// denied, and would not have been without wrappers.
	AllowedBesides int64 `json:"allowed_differently,omitempty"`
	DeniedBesides  int64 `json:"denied_differently,omitempty"`
}

// ByClock sets the worst window to that of an audit by the clock.
func (w *Wrapped) ByClock(a Audit) {
	w.ByClockRatio, w.ByClockUnits = a.WorstWindowRatio, a.WorstWindowUnits
}

// cells are the part of calls that was saved, and the units denied because others held
// some, for a table of several runs.
func (w *Wrapped) cells(r *Run) []output.Cell {
	if w == nil {
		return []output.Cell{{Text: "-"}, {Text: "-"}}
	}
	return []output.Cell{{Text: fmt.Sprintf("%.1f%%", 100*max(0, 1-w.CallsPerDecision))}, {Text: output.Thousands(r.Audit.Excused)}}
}

// saved says how many calls of the store the wrappers spared.
func (w *Wrapped) saved(r *Run) string {
	around := plural(int64(w.Replicas), "replica")
	if len(w.Wrap) > 0 {
		around += " with " + strings.Join(w.Wrap, " and ")
	}
	text := fmt.Sprintf("%s: %s of the store for %s decisions", around, plural(w.StoreCalls, "call"), output.Thousands(r.Allowed+r.Denied))
	if saved := 1 - w.CallsPerDecision; saved > 0 {
		text += fmt.Sprintf(", %.1f%% saved", 100*saved)
	}
	return text
}

// price says what accuracy they cost.
func (w *Wrapped) price(r *Run) string {
	var text string
	if w.HeldUnits > 0 || r.Audit.Excused > 0 { // there are leases
		text = fmt.Sprintf("%s denied because others held units (at most %s of a key); ", units(r.Audit.Excused), output.Thousands(w.HeldUnits))
	}
	text += fmt.Sprintf("worst window %s when the store charged, %s when answers were there",
		ratio(r.Audit.WorstWindowRatio), ratio(w.ByClockRatio))
	if w.AllowedBesides+w.DeniedBesides > 0 {
		text += fmt.Sprintf("; without wrappers %s would have been denied, and %s allowed",
			requests(w.AllowedBesides), output.Thousands(w.DeniedBesides))
	}
	return text
}
