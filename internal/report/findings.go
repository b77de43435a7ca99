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

// finding is a sentence for the reader, how bad it is, and the title of the run that it is about, if there are several.
type finding struct {
	style     output.Style
	run, text string
}

func (f finding) mark() string {
	switch f.style {
	case output.Calm:
		return "✓"
	case output.AtEnd:
		return "✗"
	default:
		return "!"
	}
}

// String is the finding as a line of text.
func (f finding) String() string {
	if f.run != "" {
		return shortName(f.run) + ": " + f.text
	}
	return f.text
}

// promises are what became of the thresholds, those that were missed first, and of the suggestions.
func promises(d *Document) (all []finding) {
	var kept []finding
	for _, t := range d.Thresholds {
		f := finding{style: output.Near, text: t.Words()}
		if len(d.Runs) > 1 {
			f.run = d.Runs[t.Run].Title()
		}
		switch {
		case t.OK:
			f.style = output.Calm
			kept = append(kept, f)
			continue
		case t.IsMissed():
			f.style = output.AtEnd
		}
		all = append(all, f)
	}
	all = append(all, kept...)
	for i := range d.Suggestions {
		f := finding{style: output.AtEnd, text: d.Suggestions[i].Words()}
		if d.Suggestions[i].Kept {
			f.style = output.Calm
		}
		all = append(all, f)
	}
	return all
}

// ruling judges a document, and says why the verdict is what it is.
func ruling(d *Document) (texts []string, style output.Style) {
	d.Judge()
	if d.Verdict == Fail {
		return d.Reasons, output.AtEnd
	}
	if d.Verdict == Inconclusive {
		return d.Reasons, output.Near
	}
	found, uncovered := d.passes()
	if len(uncovered) > 0 {
		return append([]string{found}, uncovered...), output.Near
	}
	return []string{found}, output.Calm
}

// verdictOf says in words how right the decisions were.
func verdictOf(r *Run) finding {
	a := &r.Audit
	let := fmt.Sprintf("let %s the limit through in one period", output.Ratio(a.WorstRatio))
	switch {
	case r.Requests == 0:
		return finding{style: output.Near, text: "nothing was sent, so nothing is known"}
	case r.Requests == r.Errors:
		return finding{style: output.Near, text: "no request was answered, so nothing is known"}
	}
	var wrong []string
	if a.OverAdmitted > 0 {
		wrong = append(wrong, tooMany(a))
		if a.WorstRatio > 1 {
			wrong = append(wrong, let)
		}
	}
	if a.UnderAdmitted > 0 {
		wrong = append(wrong, tooFew(a))
	}
	if a.Lies != nil && a.Lies.Wrong > 0 { // the reasons of the verdict have their evidence
		wrong = append(wrong, output.Count(a.Lies.Wrong, "answer")+" told something wrong")
	}
	right := finding{style: output.Calm, text: "never more than the limit"}
	if a.WorstRatio > 1 {
		right = finding{style: output.Near, text: let + ", as this algorithm may"}
	}
	if len(wrong) > 0 {
		if a.OverAdmitted == 0 {
			wrong = append(wrong, right.text)
		}
		style := output.AtEnd
		if len(r.Wrong()) == 0 { // something else than the limiter explains it
			style = output.Near
		}
		return finding{style: style, text: strings.Join(wrong, "; ")}
	}
	return right
}

// alarmsOfRun are what a reader must know before trusting the figures of a run, the worst first. Too few decisions fail it.
func (d *Document) alarmsOfRun(run int) []finding {
	var all []finding
	r, missing := &d.Runs[run], output.Near
	if d.Undecided(run) != "" {
		missing = output.AtEnd
	}
	add := func(style output.Style, format string, args ...any) {
		all = append(all, finding{style: style, text: fmt.Sprintf(format, args...)})
	}
	if r.GeneratorLimited {
		other := "store"
		if r.Endpoint != nil {
			other = "endpoint"
		}
		add(output.Near, "the load generator was the limit, not the %s: times are upper bounds, throughput is not judged; "+
			"correctness is", other)
	}
	if r.Dropped > 0 {
		arrivals := r.Requests + r.Dropped
		add(missing, "%s of %s arrivals were dropped (%s): they could not be sent in time",
			output.Thousands(r.Dropped), output.Thousands(arrivals), output.Share(r.Dropped, arrivals))
	}
	if r.Errors > 0 {
		unknown := ""
		if r.Unknown > 0 {
			unknown = fmt.Sprintf("; %s of them may have been charged all the same", output.Thousands(r.Unknown))
		}
		add(missing, "%s ended in an error (%s)%s%s", output.Count(r.Errors, "request"), output.Share(r.Errors, r.Requests),
			r.TimedOutWords(), unknown)
		for _, e := range r.ErrorTexts {
			add(missing, "%s × %s", output.Thousands(e.Count), e.Text)
		}
	}
	if r.Late > 0 {
		add(output.Near, "%s answered more than %s after they were due (%s)",
			output.Count(r.Late, "request"), output.Duration(fromMS(r.LateAfterMS)), output.Share(r.Late, r.Requests))
	}
	if r.Neighbours != nil && r.Neighbours.Denied > 0 {
		add(output.Near, "others than the noisy key were denied, too: %s", neighboursInWords(r))
	}
	for _, warning := range r.Warnings {
		add(output.Near, "%s", warning)
	}
	return all
}

// alarms are those of all runs. One that all of several runs have is about none of them.
func alarms(d *Document) (all []finding) {
	common, said := map[finding]int{}, map[finding]bool{}
	for i := range d.Runs {
		for _, alarm := range d.alarmsOfRun(i) {
			common[alarm]++
		}
	}
	for i := range d.Runs {
		for _, alarm := range d.alarmsOfRun(i) {
			if common[alarm] < len(d.Runs) {
				alarm.run = d.Runs[i].Title()
			}
			if !said[alarm] {
				said[alarm] = true
				all = append(all, alarm)
			}
		}
	}
	return all
}

// fact is what is known of a run under a label, a line or more.
type fact struct {
	Name  string
	style output.Style
	lines []string
}

// Words are the words of a fact. The page breaks a line between them, since a browser would also break it after the
// first hyphen of a flag.
func (f fact) Words() []string { return strings.Fields(f.text()) }

// text is the fact in one line that can be shown.
func (f fact) text() string {
	return output.Cut(output.Printable(strings.Join(f.lines, "; ")), longestFact)
}

// longestFact is how much is shown of a load, of a store's address and of a command line.
const longestFact = 600

// figuresOf are the figures of a run in words, which all forms of a report show.
func figuresOf(r *Run, kind Kind) (all []fact) {
	add := func(name string, lines ...string) {
		if lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" }); len(lines) > 0 {
			all = append(all, fact{Name: name, lines: lines})
		}
	}
	add("limit", r.Title())
	add("load", loadInWords(r, kind))
	add("answers", answersInWords(r), statusesInWords(r))
	if r.Keys > 0 {
		add("keys", fmt.Sprintf("%s, %s of them denied at least once (%s)",
			output.Thousands(r.Keys), output.Thousands(r.KeysDenied), output.Share(r.KeysDenied, r.Keys)))
	}
	if r.Neighbours != nil {
		add("neighbours", neighboursInWords(r))
	}
	verdict := verdictOf(r)
	add("right?", verdict.mark()+" "+verdict.text)
	all[len(all)-1].style = verdict.style
	if r.Requests > 0 {
		all[len(all)-1].lines = append(all[len(all)-1].lines, auditInWords(r))
	}
	if r.Wrapped != nil {
		add("wrapped", savedWords(r.Wrapped, r), priceWords(r.Wrapped))
	}
	if cost := costInWords(r); cost != "" {
		add("cost?", "a decision: "+cost)
	}
	if kind != Simulation {
		opened := ""
		if r.Endpoint != nil && r.Endpoint.Connections != nil {
			opened = output.Count(r.Endpoint.Connections.Opened, "connection") + " opened"
		}
		add("fast?", output.PerSecond(r.ThroughputPerS)+" answered", opened)
	}
	return all
}

// facts are what is said once of a document: the figures of a single run or the load of several, and where it is from.
func facts(d *Document) (all []fact) {
	if len(d.Runs) == 0 {
		return nil
	}
	add := func(name, value string) {
		if value != "" {
			all = append(all, fact{Name: name, lines: []string{value}})
		}
	}
	r := &d.Runs[0]
	if len(d.Runs) == 1 {
		all = figuresOf(r, d.Kind)
	} else {
		add("load", commonLoad(d))
	}
	add("server", r.Server)
	if r.Seed != nil {
		add("seed", strconv.FormatUint(*r.Seed, 10))
	}
	if !r.StartedAt.IsZero() {
		add("began", r.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	if o := d.Origin; o != nil {
		add("made by", shortName("limitctl "+o.Version))
		if o.Host != "" {
			add("on", shortName(fmt.Sprintf("%s (%s, %s)", o.Host, o.Platform, output.Count(int64(o.CPUs), "CPU"))))
		}
		add("command", o.Command)
	}
	return all
}

// answersInWords says what became of the requests.
func answersInWords(f *Run) string {
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

// costInWords is the known part of the cost.
func costInWords(r *Run) string {
	var parts []string
	for _, cost := range Costs {
		if r.Cost == nil || cost.Of(r.Cost) == nil {
			continue
		}
		figure, words := output.Decimal(*cost.Of(r.Cost)), cost.Words
		if cost.Unit != "" {
			figure += " " + cost.Unit
		}
		if figure == "1" {
			words = strings.TrimSuffix(words, "s") // "1 round trip"
		}
		parts = append(parts, figure+" "+words)
	}
	return strings.Join(parts, " · ")
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
