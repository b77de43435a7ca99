package report

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// findingOf is what a suggestion says.
func findingOf(s *Suggestion) finding {
	if s.Kept {
		return finding{output.Calm, s.Words()}
	}
	return finding{output.AtEnd, s.Words()}
}

// findingOfThreshold is what became of a promise.
func findingOfThreshold(t *Threshold) finding {
	switch {
	case t.OK:
		return finding{output.Calm, t.Expression + ": " + t.Actual}
	case t.IsMissed():
		return finding{output.AtEnd, t.Expression + ": " + t.Actual}
	}
	return finding{output.Near, fmt.Sprintf("%s: %s, not judged, because %s", t.Expression, t.Actual, t.NotJudged)}
}

// ruling judges a document, and says why the verdict is what it is.
func ruling(d *Document) (texts []string, style output.Style) {
	d.Judge()
	switch d.Verdict {
	case Fail:
		return d.Reasons, output.AtEnd
	case Inconclusive:
		return d.Reasons, output.Near
	case Pass:
	}
	texts, uncovered := d.Passes()
	if len(uncovered) > 0 {
		return append(texts, uncovered...), output.Near
	}
	return texts, output.Calm
}

// verdictOf says in words how right the decisions were.
func verdictOf(r *Run) finding {
	a := r.Audit
	let := fmt.Sprintf("let %s the limit through in one period", output.Ratio(a.WorstRatio))
	switch {
	case r.Requests == 0:
		return finding{output.Near, "nothing was sent, so nothing is known"}
	case r.Requests == r.Errors:
		return finding{output.Near, "no request was answered, so nothing is known"}
	}
	var wrong []string
	if a.OverAdmitted > 0 {
		wrong = append(wrong, a.TooMany())
		if a.WorstRatio > 1 {
			wrong = append(wrong, let)
		}
	}
	if a.UnderAdmitted > 0 {
		wrong = append(wrong, a.TooFew())
	}
	if a.Lied() { // the reasons of the verdict have their evidence
		wrong = append(wrong, output.Count(a.Lies.Wrong, "answer")+" told something wrong")
	}
	right := finding{output.Calm, "never more than the limit"}
	if a.WorstRatio > 1 {
		right = finding{output.Near, let + ", as this algorithm may"}
	}
	if len(wrong) > 0 {
		if a.OverAdmitted == 0 {
			wrong = append(wrong, right.text)
		}
		style := output.AtEnd
		if len(r.Wrong()) == 0 { // something else than the limiter explains it
			style = output.Near
		}
		return finding{style, strings.Join(wrong, "; ")}
	}
	return right
}

// alarmsOfRun are what a reader must know before trusting the figures, the worst first.
func alarmsOfRun(r *Run) []finding {
	var all []finding
	add := func(style output.Style, format string, args ...any) {
		all = append(all, finding{style, fmt.Sprintf(format, args...)})
	}
	if r.GeneratorLimited {
		other := "store"
		if r.Endpoint != nil {
			other = "endpoint"
		}
		add(output.AtEnd, "the load generator was the limit, not the %s: the figures are about the machine it ran on", other)
	}
	if r.Dropped > 0 {
		arrivals := r.Requests + r.Dropped
		add(output.AtEnd, "%s of %s arrivals were dropped (%s): they could not be sent in time",
			output.Thousands(r.Dropped), output.Thousands(arrivals), output.Share(r.Dropped, arrivals))
	}
	if r.Errors > 0 {
		unknown := ""
		if r.Unknown > 0 {
			unknown = fmt.Sprintf("; %s of them may have been charged all the same", output.Thousands(r.Unknown))
		}
		add(output.AtEnd, "%s ended in an error (%s)%s%s", output.Count(r.Errors, "request"), output.Share(r.Errors, r.Requests),
			r.TimedOutWords(), unknown)
		for _, e := range r.ErrorTexts {
			add(output.AtEnd, "%s × %s", output.Thousands(e.Count), e.Text)
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

// alarmsOf are those of all runs, each with the title of its run. An alarm that all of
// several runs have is listed once, with no title.
func alarmsOf(d *Document) (all []finding, titles []string) {
	common := map[string]int{}
	for i := range d.Runs {
		for _, alarm := range alarmsOfRun(&d.Runs[i]) {
			common[alarm.text]++
		}
	}
	said := map[string]bool{}
	for i := range d.Runs {
		for _, alarm := range alarmsOfRun(&d.Runs[i]) {
			title := d.Runs[i].Title()
			if common[alarm.text] == len(d.Runs) {
				title = ""
			}
			if !said[title+"\x00"+alarm.text] {
				said[title+"\x00"+alarm.text] = true
				all, titles = append(all, alarm), append(titles, title)
			}
		}
	}
	return all, titles
}
