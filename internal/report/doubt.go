package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// defaultMaxErrors is the share of the planned requests of a load test that may get no decision.
const defaultMaxErrors = 0.01

// Planned is the requests that were to be sent.
func (f *Figures) Planned() int64 { return f.Requests + f.Dropped }

// undecided is how many of the planned requests got no decision.
func (f *Figures) undecided() int64 { return f.Errors + f.Dropped }

// mayFail is the share of planned requests that may get no decision.
func (d *Document) mayFail() float64 {
	if d.MaxErrors == nil { // of a version that did not have it
		return defaultMaxErrors
	}
	return *d.MaxErrors
}

// Undecided says how many requests of a run got no decision, if they are too many.
func (d *Document) Undecided(run int) string {
	r := &d.Runs[run]
	n := r.undecided()
	if float64(n) <= d.mayFail()*float64(r.Planned()) {
		return ""
	}
	return fmt.Sprintf("%s of %s got no decision (%s), and at most %s%% may: %s failed%s, and %s were dropped",
		output.Thousands(n), output.Count(r.Planned(), "planned request"), output.Share(n, r.Planned()),
		strconv.FormatFloat(100*d.mayFail(), 'g', 6, 64), output.Thousands(r.Errors), r.TimedOutWords(), output.Thousands(r.Dropped))
}

// IsUndecided reports whether too many requests of a run got no decision.
func (d *Document) IsUndecided() bool {
	for i := range d.Runs {
		if d.Undecided(i) != "" {
			return true
		}
	}
	return false
}

// TimedOutWords says how many of the errors were time-outs, to be put after their number.
func (f *Figures) TimedOutWords() string {
	if f.TimedOut == 0 {
		return ""
	}
	return fmt.Sprintf(", of which %s timed out", output.Thousands(f.TimedOut))
}

// Doubts are why a document that nothing is wrong with does not pass, a sentence each.
func (d *Document) Doubts() []string {
	var all []string
	for i := range d.Runs {
		if undecided := d.Undecided(i); undecided != "" {
			all = append(all, d.About(i)+undecided)
		}
		for _, doubt := range d.Runs[i].doubts(d.Kind) {
			all = append(all, d.About(i)+doubt)
		}
	}
	for _, t := range d.Thresholds {
		if t.NotJudged != "" {
			all = append(all, d.About(t.Run)+t.Words())
		}
	}
	return all
}

// doubts are why too little of a run was seen. A simulation tries what a limit would have done, and is not wrong
// because that is nothing.
func (r *Run) doubts(kind Kind) (all []string) {
	limits := r.Judged()
	switch {
	case kind == Simulation:
		return nil
	case r.Requests == 0:
		return []string{"nothing was sent, so nothing is known"}
	case len(limits) == 0:
		return []string{"the audit proves nothing, because something else than the limit can explain what it finds; see the warnings"}
	}
	if r.Denied > 0 || slices.ContainsFunc(limits, func(l Limit) bool { return l.Reached() >= 1 }) {
		return nil // of an endpoint with several limits nobody knows which of them denied
	}
	return []string{r.Untested(kind)}
}

// Reached is how much of the limit was in use at most: 1 is a limit that was reached. A
// limit that denied was reached, since a request may ask for more than is left.
func (l *Limit) Reached() float64 {
	switch {
	case l.Denied > 0:
		return 1
	case l.LimitReached != nil:
		return *l.LimitReached
	}
	return l.WorstRatio // of a document of a version that did not have it
}

// IsUntested reports whether a limit of the run was never reached, so that its audit could not find
// what it admits too many. A simulation is right by construction.
func (r *Run) IsUntested(l *Limit, kind Kind) bool {
	return l.Reached() < 1 && kind != Simulation
}

// UnderUntested says why the audit of a limit could not find what it denied wrongly; empty if it could.
func (r *Run) UnderUntested(l *Limit) string {
	switch {
	case r.Requests == 0:
		return "nothing was sent"
	case r.Requests == r.Errors:
		return "no request was answered"
	case r.Endpoint != nil && l.Denied == 0:
		return "nothing was denied, or no denial was certainly of this limit"
	}
	return ""
}

// Untested says which limit was reached least, and that it was never reached; empty if all were reached.
func (r *Run) Untested(kind Kind) string {
	if r.Requests == 0 {
		return "nothing was sent, so nothing is known"
	}
	limits := r.Judged()
	var least *Limit
	for i := range limits {
		if r.IsUntested(&limits[i], kind) && (least == nil || limits[i].Reached() < least.Reached()) {
			least = &limits[i]
		}
	}
	if least == nil {
		return ""
	}
	name := ""
	if len(r.Limits) > 1 {
		name = least.Name + " was "
	}
	return name + least.NeverAbove() + ", so over-admission was not tested; ask for more, or let fewer keys ask"
}

// NeverAbove says how much of the limit was in use at most. It rounds up a share that is below 1.
func (l *Limit) NeverAbove() string {
	const rounding = 1e-9 // of a float
	percent := math.Max(0, math.Ceil(100*l.Reached()-rounding))
	return fmt.Sprintf("never above %.0f%% of the limit", math.Min(percent, 99))
}

// Passes says what a pass is made of, and what it does not cover.
func (d *Document) Passes() (texts, uncovered []string) {
	var parts []string
	if slices.ContainsFunc(d.Runs, func(r Run) bool { return r.Requests > 0 && len(r.Judged()) > 0 }) {
		in := ""
		if len(d.Runs) > 1 {
			in = fmt.Sprintf(" in %d runs", len(d.Runs))
		}
		parts = append(parts, "the audit found nothing wrong"+in)
	}
	if n := int64(len(d.Thresholds)); n > 0 {
		parts = append(parts, output.Count(n, "threshold")+" kept")
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing is wrong that was looked at")
	}
	for i := range d.Runs {
		if untested := d.Runs[i].Untested(d.Kind); untested != "" {
			uncovered = append(uncovered, d.About(i)+untested)
		}
	}
	return []string{strings.Join(parts, "; ")}, uncovered
}
