package show

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// reached is how much of the limit was in use at most: 1 is a limit that was reached. A
// limit that denied was reached, since a request may ask for more than is left.
func reached(l *report.Limit) float64 {
	switch {
	case l.Denied > 0:
		return 1
	case l.LimitReached != nil:
		return *l.LimitReached
	}
	return l.WorstRatio // of a document of a version that did not have it
}

// isUntested reports whether the limit of a run was never reached. A simulation without a
// store is right by construction.
func isUntested(l *report.Limit, kind report.Kind, r *report.Run) bool {
	return reached(l) < 1 && !(kind == report.Simulation && r.Store == report.NoStore)
}

// untested says which limit was never reached, so that its audit could not find what it
// admits too many; empty if all were.
func untested(r *report.Run, kind report.Kind) string {
	if r.Requests == 0 {
		return "nothing was sent, so nothing is known"
	}
	limits := r.Judged()
	var least *report.Limit
	for i := range limits {
		if isUntested(&limits[i], kind, r) && (least == nil || reached(&limits[i]) < reached(least)) {
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
	text := fmt.Sprintf("%snever above %s of the limit, so over-admission was not tested", name, percentUp(reached(least)))
	if rate := rateToReach(r, least); rate > 0 && kind == report.LoadTest {
		return text + "; try " + shell.Command("--rate", whole(rate))
	}
	return text + "; ask for more, or let fewer keys ask"
}

// percentUp writes a share that is below 1 and not known to be less than shown.
func percentUp(f float64) string {
	const rounding = 1e-9 // of a float
	percent := math.Ceil(100*f - rounding)
	return fmt.Sprintf("%.0f%%", math.Min(percent, 99))
}

// rateToReach is a rate at which the load would have reached the limit in its time, with
// a fifth to spare; 0 if none can be named. The busiest key has to ask for what the limit
// allows at once, and for what becomes free meanwhile.
func rateToReach(r *report.Run, l *report.Limit) int64 {
	seconds := float64(r.CountedMS()) / 1000
	limit, err := store.ParseLimit(l.Limit)
	if err == nil {
		limit, err = limit.Normalize()
	}
	if err != nil || r.Rate <= 0 || r.Scenario != "" || r.Policy != "" || len(r.Heat) == 0 || seconds <= 0 || r.Allowed == 0 {
		return 0
	}
	busiest := float64(r.Heat[0].Allowed+r.Heat[0].Denied) / float64(max(r.Heat[0].Keys, 1)) / seconds
	if sums := r.Audit.KeySums; sums != nil && sums.Sum > 0 {
		busiest *= sums.Sum / float64(r.Allowed) // requests may cost more than a unit
	}
	needed := float64(limit.Count)/limit.Period.Seconds() + float64(limit.Capacity())/seconds
	const spare = 1.2
	if busiest <= 0 {
		return 0
	}
	rate := spare * r.Rate * needed / busiest
	step := math.Pow(10, math.Floor(math.Log10(rate))-1)
	if rounded := math.Ceil(rate/step) * step; rounded < 1e15 {
		return int64(math.Ceil(rounded))
	}
	return 0
}

// uncovered says what the audit of a run that several machines shared does not cover; empty if
// all is covered.
func uncovered(s *report.Shared) string {
	switch {
	case s == nil || s.Audited && s.Missing == 0:
		return ""
	case s.Machine != "":
		return fmt.Sprintf("one of %s of the run %s: what was denied and told is audited when limitctl report merges them",
			output.Count(int64(s.Machines), "machine"), s.Name)
	}
	return "only what machines were admitted too much was looked for, and not what was denied wrongly or told wrong"
}

// passed says what a pass is made of, and what it does not cover.
func passed(d *report.Document) (texts []string, style output.Style) {
	var parts []string
	if isAudited(d) {
		parts = append(parts, "the audit found nothing wrong"+inRuns(d))
	}
	if n := int64(len(d.Thresholds)); n > 0 {
		parts = append(parts, output.Count(n, "threshold")+" kept")
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing is wrong that was looked at")
	}
	texts, style = []string{strings.Join(parts, "; ")}, output.Calm
	for i := range d.Runs {
		if uncovered := uncovered(d.Runs[i].Shared); uncovered != "" {
			texts, style = append(texts, d.About(i)+uncovered), output.Near
		} else if untested := untested(&d.Runs[i], d.Kind); untested != "" {
			texts, style = append(texts, d.About(i)+untested), output.Near
		}
	}
	return texts, style
}

// isAudited reports whether anything was decided that an audit could judge.
func isAudited(d *report.Document) bool {
	return slices.ContainsFunc(d.Runs, func(r report.Run) bool { return r.Requests > 0 })
}

func inRuns(d *report.Document) string {
	if len(d.Runs) < 2 {
		return ""
	}
	return fmt.Sprintf(" in %d runs", len(d.Runs))
}
