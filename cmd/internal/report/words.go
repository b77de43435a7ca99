package report

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// Title names the run among those of its document: "token-bucket 100/1m".
func (r *Run) Title() string {
	title := strings.TrimSpace(r.Algorithm + " " + r.limit())
	if strings.Contains(r.Limit, " and ") { // each is written with its algorithm
		title = r.Limit
	}
	if r.Policy != "" {
		title = strings.TrimSpace("policy " + r.Policy + ": " + title)
	}
	if r.Implementation == naive {
		title += " (naive)"
	}
	return title
}

// limit is the limit without the algorithm, which it may be written with.
func (r *Run) limit() string { return strings.TrimPrefix(r.Limit, r.Algorithm+":") }

// countedMS is how long requests were sent that count: all but the warm-up, in ms.
func (f *Figures) countedMS() int64 { return f.DurationMS - f.WarmupMS }

// naive is the implementation with several commands instead of a script.
const naive = "naive"

// NoStore is the store of a simulation that was decided without one.
const NoStore = "none"

// where says how long the run took and on which store: "for 30s on redis://localhost:6379".
func (r *Run) where(kind Kind) string {
	duration := output.Duration(milliseconds(r.DurationMS))
	if kind == Simulation {
		words := "over " + duration
		if r.Store != NoStore {
			words += ", decided by " + r.Store
		}
		return words
	}
	if r.WarmupMS > 0 {
		duration += ", of which " + output.Duration(milliseconds(r.WarmupMS)) + " to warm up,"
	}
	return "for " + duration + " on " + r.Store
}

// loadInWords is what was sent where.
func (r *Run) loadInWords(kind Kind) string {
	text := r.Load
	if r.Scenario != "" {
		text = "scenario " + r.Scenario + ": " + text
	}
	if r.Workers > 0 && !strings.Contains(r.Load, "worker") {
		text += fmt.Sprintf(", %s", plural(int64(r.Workers), "worker"))
	}
	return text + ", " + r.where(kind)
}

// neighboursInWords says whether any key but the noisy one was denied.
func (r *Run) neighboursInWords() string {
	n := r.Neighbours
	return fmt.Sprintf("%s of %s, %s denied", requests(n.Allowed+n.Denied), n.Key, output.Thousands(n.Denied))
}

// auditInWords is the figures behind the verdict.
func (r *Run) auditInWords() string {
	a := r.Audit
	followed := ""
	if a.over() < a.OverAdmitted {
		followed = fmt.Sprintf(" (%s admitted while over)", output.Thousands(a.OverAdmitted))
	}
	text := fmt.Sprintf("worst window %s (%s); %s over%s, %s under; at most %s denied in a row", ratio(a.WorstWindowRatio),
		units(a.WorstWindowUnits), units(a.over()), followed, units(a.under()), output.Thousands(a.LongestDenialRun))
	if r.Audit.FairnessUnknown {
		text += "; fairness is not known"
	} else {
		text += "; fairness " + decimal(a.Fairness)
	}
	text += a.Sight.words()
	if n := r.Neighbours; n != nil {
		text += fmt.Sprintf("; the neighbours were denied %s of %s", output.Thousands(n.Denied), requests(n.Allowed+n.Denied))
	}
	return text
}

// costPart is one figure of the cost with its unit, and the words after it.
type costPart struct{ figure, of string }

// costParts is the known part of the cost.
func (r *Run) costParts() []costPart {
	var parts []costPart
	for _, cost := range costs {
		if r.Cost == nil || cost.of(r.Cost) == nil {
			continue
		}
		figure := decimal(*cost.of(r.Cost))
		if cost.unit != "" {
			figure += " " + cost.unit
		}
		words := cost.words
		if figure == "1" {
			words = strings.TrimSuffix(words, "s") // "1 round trip"
		}
		parts = append(parts, costPart{figure, words})
	}
	return parts
}

func joinCost(parts []costPart) string {
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = part.figure + " " + part.of
	}
	return strings.Join(texts, " · ")
}

// commonLoad says what was sent where in all runs, and how long the longest took.
func (d *Document) commonLoad() string {
	run := d.Runs[0]
	for i := range d.Runs {
		run.DurationMS = max(run.DurationMS, d.Runs[i].DurationMS)
	}
	return run.loadInWords(d.Kind)
}
