package report

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// answersInWords says what became of the requests.
func answersInWords(f *Figures) string {
	if f.Requests == 0 {
		return "none: no request was sent"
	}
	text := fmt.Sprintf("%s: %s allowed (%s), %s denied (%s)", output.Count(f.Requests, "request"),
		output.Thousands(f.Allowed), output.Share(f.Allowed, f.Requests), output.Thousands(f.Denied), output.Share(f.Denied, f.Requests))
	if f.Errors > 0 {
		text += fmt.Sprintf(", %s failed (%s)", output.Thousands(f.Errors), output.Share(f.Errors, f.Requests))
	}
	text += f.TimedOutWords()
	if f.Dropped > 0 {
		text += fmt.Sprintf("; %s dropped", output.Thousands(f.Dropped))
	}
	return text
}

// statusesInWords says how often there was each status.
func statusesInWords(r *Run) string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		parts = append(parts, fmt.Sprintf("%s × %s", output.Thousands(r.Statuses[status]), statusInWords(status)))
	}
	return strings.Join(parts, " · ")
}

// statusInWords is a status with its name: "200 OK".
func statusInWords(status string) string {
	if n, err := strconv.Atoi(status); err == nil && http.StatusText(n) != "" {
		return status + " " + http.StatusText(n)
	}
	return status
}

// connectionsInWords says how many connections were opened.
func connectionsInWords(r *Run) string {
	if r.Endpoint == nil || r.Endpoint.Connections == nil {
		return ""
	}
	return output.Count(r.Endpoint.Connections.Opened, "connection") + " opened"
}

// endpointTimes are how long connections took.
func endpointTimes(r *Run) []namedTimes {
	if r.Endpoint == nil || r.Endpoint.Connections == nil {
		return nil
	}
	return []namedTimes{{"connect", r.Endpoint.Connections.Connect}, {"TLS", r.Endpoint.Connections.TLS}}
}

// where says how long the run took and on which store: "for 30s on redis://localhost:6379".
func where(r *Run, kind Kind) string {
	duration := output.Duration(fromMS(r.DurationMS))
	if kind == Simulation {
		return "over " + duration
	}
	if r.WarmupMS > 0 {
		duration += ", of which " + output.Duration(fromMS(r.WarmupMS)) + " to warm up,"
	}
	return "for " + duration + " on " + r.Store
}

// loadInWords is what was sent where.
func loadInWords(r *Run, kind Kind) string {
	text := r.Load
	if r.Scenario != "" {
		text = "scenario " + r.Scenario + ": " + text
	}
	if r.Workers > 0 && !strings.Contains(r.Load, "worker") {
		text += fmt.Sprintf(", %s", output.Count(int64(r.Workers), "worker"))
	}
	return text + ", " + where(r, kind)
}

// neighboursInWords says whether any key but the noisy one was denied.
func neighboursInWords(r *Run) string {
	n := r.Neighbours
	return fmt.Sprintf("%s of %s, %s denied", output.Count(n.Allowed+n.Denied, "request"), n.Key, output.Thousands(n.Denied))
}

// auditInWords is the figures behind the verdict.
func auditInWords(r *Run) string {
	a := r.Audit
	followed := ""
	if a.Over() < a.OverAdmitted {
		followed = fmt.Sprintf(" (%s admitted while over)", output.Thousands(a.OverAdmitted))
	}
	text := fmt.Sprintf("worst window %s (%s); %s over%s, %s under; at most %s denied in a row", output.Ratio(a.WorstRatio),
		output.Count(a.WorstUnits, "unit"), output.Count(a.Over(), "unit"), followed, output.Count(a.Under(),
			"unit"), output.Thousands(a.LongestDenialRun))
	text += "; fairness " + output.Decimal(a.Fairness)
	if n := r.Neighbours; n != nil {
		text += fmt.Sprintf("; the neighbours were denied %s of %s", output.Thousands(n.Denied),
			output.Count(n.Allowed+n.Denied, "request"))
	}
	return text
}

// costPart is one figure of the cost with its unit, and the words after it.
type costTerm struct{ figure, of string }

// costParts is the known part of the cost.
func costTerms(r *Run) []costTerm {
	var parts []costTerm
	for _, cost := range Costs {
		if r.Cost == nil || cost.Of(r.Cost) == nil {
			continue
		}
		figure := output.Decimal(*cost.Of(r.Cost))
		if cost.Unit != "" {
			figure += " " + cost.Unit
		}
		words := cost.Words
		if figure == "1" {
			words = strings.TrimSuffix(words, "s") // "1 round trip"
		}
		parts = append(parts, costTerm{figure, words})
	}
	return parts
}

func joinCost(parts []costTerm) string {
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = part.figure + " " + part.of
	}
	return strings.Join(texts, " · ")
}

// commonLoad says what was sent where in all runs, and how long the longest took.
func commonLoad(d *Document) string {
	run := d.Runs[0]
	for i := range d.Runs {
		run.DurationMS = max(run.DurationMS, d.Runs[i].DurationMS)
	}
	return loadInWords(&run, d.Kind)
}

// savedWords says how many calls of the store the wrappers spared.
func savedWords(w *Wrapped, r *Run) string {
	around := output.Count(int64(w.Replicas), "replica")
	if len(w.Wrap) > 0 {
		around += " with " + strings.Join(w.Wrap, " and ")
	}
	text := fmt.Sprintf("%s: %s of the store for %s decisions", around, output.Count(w.StoreCalls, "call"),
		output.Thousands(r.Allowed+r.Denied))
	if saved := 1 - w.CallsPerDecision; saved > 0 {
		text += fmt.Sprintf(", %.1f%% saved", 100*saved)
	}
	return text
}

// priceWords says what accuracy they cost.
func priceWords(w *Wrapped) string {
	return fmt.Sprintf("without wrappers %s would have been denied, and %s allowed", output.Count(w.AllowedBesides, "allowed request"),
		output.Count(w.DeniedBesides, "denied one"))
}
