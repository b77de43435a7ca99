package report

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// finding is a sentence for the reader, and how bad it is.
type finding struct {
	style output.Style
	text  string
}

func (f finding) Mark() string {
	switch f.style {
	case output.Calm:
		return "✓"
	case output.AtEnd:
		return "✗"
	default:
		return "!"
	}
}

// promises are what became of the thresholds and the suggestions, those that were missed first. In short, those
// that were kept share a line.
func promises(d *Document, short bool) (all []finding) {
	var kept []finding
	styles := map[Verdict]output.Style{Pass: output.Calm, Fail: output.AtEnd, Inconclusive: output.Near}
	for _, p := range d.promised() {
		f := finding{styles[p.verdict], d.about(p.run) + p.words[0]}
		if p.verdict == Pass {
			kept = append(kept, f)
		} else {
			all = append(all, f)
		}
	}
	if !short || len(kept) < 2 {
		return append(all, kept...)
	}
	text := output.Count(int64(len(kept)), "promise") + " kept"
	if len(kept) <= 3 {
		text = kept[0].text
		for _, f := range kept[1:] {
			text += " · " + f.text
		}
	}
	return append(all, finding{style: output.Calm, text: text})
}

// headline is the answer of a document: a word, which a simulation has only where something was promised, and why.
func (d *Document) headline() (word string, style output.Style, lines []string) {
	j := d.judge()
	d.Judge()
	word = strings.ToUpper(string(d.Verdict))
	style = map[Verdict]output.Style{Pass: output.Calm, Fail: output.AtEnd, Inconclusive: output.Near}[d.Verdict]
	switch d.Verdict {
	case Fail:
		lines = j.wrong
		if len(lines) == 0 {
			lines = []string{fmt.Sprintf("%d of %d promises missed", len(j.missed), len(d.promised()))}
		}
	case Inconclusive:
		lines = j.doubts
		if len(lines) == 0 {
			lines = []string{output.Count(int64(len(j.open)), "threshold") + " not judged"}
		}
	default:
		if d.Kind != Simulation {
			lines = []string{d.held()}
		} else if len(d.promised()) == 0 {
			word = ""
		}
	}
	if d.Kind == Simulation && len(d.Runs) > 0 {
		lines = append([]string{whoIsDenied(d.Runs)}, lines...)
	}
	return word, style, lines
}

// held says what a load test that passes is made of.
func (d *Document) held() string {
	worst := -1.0
	for i := range d.Runs {
		if r := &d.Runs[i]; r.Requests > 0 && len(r.judged()) > 0 {
			worst = max(worst, r.Audit.WorstRatio)
		}
	}
	switch {
	case worst < 0:
		return "nothing is wrong that was looked at"
	case worst <= 1:
		return "nobody got more than the limit"
	}
	return fmt.Sprintf("nobody got more than the limit allows (%s in one period)", output.Ratio(worst))
}

// whoIsDenied says how many callers and requests a limit would have denied, or several, from the least to the most.
func whoIsDenied(runs []Run) string {
	between := func(of func(*Run) int64) string {
		least, most := of(&runs[0]), of(&runs[0])
		for i := range runs {
			least, most = min(least, of(&runs[i])), max(most, of(&runs[i]))
		}
		if least == most {
			return output.Thousands(least)
		}
		return output.Thousands(least) + " to " + output.Thousands(most)
	}
	return fmt.Sprintf("%s of %s would have been denied (%s of %s)",
		between(func(r *Run) int64 { return r.KeysDenied }),
		output.Count(runs[0].Keys, "caller"), between(func(r *Run) int64 { return r.Denied }),
		output.Count(runs[0].Requests, "request"))
}

// alarmsOf are what a reader must know before trusting the figures of a run, the worst first. Too few decisions fail
// it.
func (d *Document) alarmsOf(run int) (all []finding) {
	r := &d.Runs[run]
	add := func(style output.Style, format string, args ...any) {
		all = append(all, finding{style: style, text: fmt.Sprintf(format, args...)})
	}
	if _, note := r.unseen(d.Kind); note != "" {
		add(output.Near, "%s", note)
	}
	if r.GeneratorLimited {
		add(output.Near, "the load generator was the limit: times are upper bounds, throughput a lower one")
	} else if r.Late > 0 && r.Lag != nil { // without a schedule nothing is due
		add(output.Near, "%s answered more than %s late (%s)",
			output.Count(r.Late, "request"), output.Duration(fromMS(r.LateAfterMS)), output.Share(r.Late, r.Requests))
	}
	missing := output.Near
	if d.undecided(run) != "" {
		missing = output.AtEnd
	}
	for _, e := range r.ErrorTexts {
		add(missing, "%s × %s", output.Thousands(e.Count), e.Text)
	}
	for _, warning := range r.Warnings {
		add(output.Near, "%s", warning)
	}
	return all
}

// alarms are those of all runs, each once. One that not all of several runs have names those that have it.
func alarms(d *Document) (all []finding) {
	if d.Judge(); d.Interrupted && d.Verdict == Fail { // else the headline says it
		all = append(all, finding{style: output.Near, text: d.unfinished()})
	}
	titles := map[finding][]string{}
	for i := range d.Runs {
		for _, alarm := range d.alarmsOf(i) {
			if titles[alarm] == nil {
				all = append(all, alarm)
			}
			titles[alarm] = append(titles[alarm], d.Runs[i].Title())
		}
	}
	for i, alarm := range all {
		if of := titles[alarm]; len(of) > 0 && len(of) < len(d.Runs) {
			all[i].text = strings.Join(of, ", ") + ": " + alarm.text
		}
	}
	return all
}

// fact is what is known of a document under a label.
type fact struct {
	Name, line string
	detail     bool // a terminal shows it only with -v
}

// Text is the fact as it can be shown.
func (f fact) Text() string { return output.Cut(output.Printable(f.line), longestFact) }

// longestFact is how much is shown of a load and of a store's address.
const longestFact = 600

// facts are the figures of a single run in words, or the load of several, and where they are from.
func facts(d *Document) (all []fact) {
	if len(d.Runs) == 0 {
		return nil
	}
	add := func(name string, detail bool, line string) {
		if line != "" {
			all = append(all, fact{name, line, detail})
		}
	}
	r := &d.Runs[0]
	if len(d.Runs) > 1 {
		add("load", false, loadInWords(r, d.Kind))
	} else {
		r.addFigures(d.Kind, add)
	}
	add("server", true, r.Server)
	if r.Seed != nil {
		add("seed", true, strconv.FormatUint(*r.Seed, 10))
	}
	if !r.StartedAt.IsZero() {
		add("began", true, r.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return all
}

// addFigures adds the figures of a run.
func (r *Run) addFigures(kind Kind, add func(name string, detail bool, line string)) {
	add("limit", false, r.Title())
	add("load", false, loadInWords(r, kind))
	add("answers", kind == Simulation, answersInWords(r))
	if r.Keys > 0 {
		add("keys", true, fmt.Sprintf("%s, %s of them denied at least once (%s)",
			output.Thousands(r.Keys), output.Thousands(r.KeysDenied), output.Share(r.KeysDenied, r.Keys)))
	}
	if r.Requests > r.Errors { // of several limits a table has it, and a simulation is right
		right := kind == Simulation && r.Audit.OverAdmitted+r.Audit.UnderAdmitted == 0
		add("right", len(r.Limits) > 1 || right, rightInWords(r))
	}
	if r.Wrapped != nil {
		add("wrapped", false, wrappedInWords(r.Wrapped, r))
	}
	if r.Latency != nil {
		add("fast", false, fmt.Sprintf("p50 %s, p95 %s, p99 %s; %s answered", r.shown("p50"), r.shown("p95"),
			r.shown("p99"), r.shown("throughput")))
	}
	if r.Endpoint != nil && r.Endpoint.Connections != nil {
		add("opened", true, output.Count(r.Endpoint.Connections.Opened, "connection"))
	}
}

// answersInWords says what became of the requests.
func answersInWords(f *Run) string {
	if f.Requests == 0 {
		return "none: no request was sent"
	}
	text := fmt.Sprintf("%s: %s allowed (%s), %s denied (%s)", output.Count(f.Requests, "request"),
		output.Thousands(f.Allowed), output.Share(f.Allowed, f.Requests), output.Thousands(f.Denied),
		output.Share(f.Denied, f.Requests))
	if f.Errors > 0 {
		text += fmt.Sprintf(", %s failed (%s)%s", output.Thousands(f.Errors), output.Share(f.Errors, f.Requests),
			f.timedOut())
	}
	if f.Unknown > 0 {
		text += fmt.Sprintf(", %s perhaps charged all the same", output.Thousands(f.Unknown))
	}
	if f.Dropped > 0 {
		text += fmt.Sprintf("; %s dropped", output.Thousands(f.Dropped))
	}
	if statuses := statusesInWords(f); statuses != "" {
		text += "; " + statuses
	}
	return text
}

// statusesInWords says how often there was each status: "20 × 404 Not Found".
func statusesInWords(r *Run) string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		n, _ := strconv.Atoi(status) // those of gRPC are words
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s × %s %s", output.Thousands(r.Statuses[status]), status,
			http.StatusText(n))))
	}
	return strings.Join(parts, " · ")
}

// loadInWords is what was sent where: "1000/s over 3 keys, 64 workers, for 30s on redis://localhost:6379".
func loadInWords(r *Run, kind Kind) string {
	text, took := r.Load, output.Duration(fromMS(r.DurationMS))
	if r.Scenario != "" {
		text = "scenario " + r.Scenario + ": " + text
	}
	if r.Workers > 0 && !strings.Contains(r.Load, "worker") {
		text += ", " + output.Count(int64(r.Workers), "worker")
	}
	switch {
	case kind == Simulation:
		return text + ", over " + took
	case r.WarmupMS > 0:
		took += ", of which " + output.Duration(fromMS(r.WarmupMS)) + " to warm up,"
	}
	return text + ", for " + took + " on " + r.Store
}

// rightInWords is the worst window, as a bar of which ten cells are the limit, and what was wrongly admitted or denied.
func rightInWords(r *Run) string {
	a := r.Audit
	within, beyond := min(a.WorstRatio, 1), min(max(a.WorstRatio-1, 0), 1)
	bar := strings.Repeat("█", int(10*within)) + strings.Repeat("·", 10-int(10*within)) + "|" +
		strings.Repeat("█", int(math.Ceil(10*beyond)))
	return fmt.Sprintf("worst window %s %s; %s over, %s under", output.Ratio(a.WorstRatio), bar,
		output.Count(a.OverAdmitted, "unit"), output.Thousands(a.UnderAdmitted))
}

// wrappedInWords says how many calls of the store the wrappers spared.
func wrappedInWords(w *Wrapped, r *Run) string {
	around := output.Count(int64(w.Replicas), "replica")
	if len(w.Wrap) > 0 {
		around += " with " + strings.Join(w.Wrap, " and ")
	}
	saved := ""
	if share := 1 - w.CallsPerDecision; share > 0 {
		saved = fmt.Sprintf(", %.1f%% saved", 100*share)
	}
	return fmt.Sprintf("%s: %s of the store for %s decisions%s", around, output.Count(w.StoreCalls, "call"),
		output.Thousands(r.Allowed+r.Denied), saved)
}
