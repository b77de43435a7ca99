package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// The verdicts on a whole document. A single difference has one of the others; see
// [Comparison].
const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
)

// judge sets the verdict and its reasons by what else is in the document.
func (d *Document) judge() {
	d.Verdict, d.Reasons = Pass, []string{}
	for i := range d.Runs {
		for _, wrong := range d.Runs[i].wrong() {
			d.Reasons = append(d.Reasons, d.about(i)+wrong)
		}
	}
	for _, t := range d.Thresholds {
		if !t.OK {
			d.Reasons = append(d.Reasons, d.about(t.Run)+t.missed())
		}
	}
	for i := range d.Suggestions {
		if s := &d.Suggestions[i]; !s.Kept {
			d.Reasons = append(d.Reasons, s.finding().text)
		}
	}
	if len(d.Reasons) > 0 {
		d.Verdict = Fail
	}
}

// AuditFailed reports whether the answers of a run were wrong: more or less was admitted
// than the limit allows, an answer told something that was not so, a store decided otherwise
// than limitctl computes, or nothing was answered at all.
func (d *Document) AuditFailed() bool {
	return slices.ContainsFunc(d.Runs, func(r Run) bool { return len(r.wrong()) > 0 })
}

// about is the title of a run and a colon, where there are several to tell apart.
func (d *Document) about(run int) string {
	if len(d.Runs) < 2 {
		return ""
	}
	return d.Runs[run].Title() + ": "
}

func (t *Threshold) missed() string { return fmt.Sprintf("%s was missed: %s", t.Expression, t.Actual) }

// wrong is what the audit of a run found wrong, a sentence each. A limit's audit that is
// doubtful proves nothing.
func (r *Run) wrong() []string {
	var all []string
	answered := r.Allowed + r.Denied + r.Local + r.Unguarded
	if r.Requests > 0 && answered == 0 && r.Errors > 0 {
		all = append(all, "no request was answered")
	}
	limits := r.judged()
	for _, l := range limits {
		for _, wrong := range l.Audit.wrong() {
			if len(limits) > 1 {
				wrong = l.Name + ": " + wrong
			}
			all = append(all, wrong)
		}
	}
	all = append(all, r.Clock.wrong()...)
	if r.Disagreements > 0 {
		all = append(all, r.disagreed())
	}
	return all
}

func (r *Run) disagreed() string {
	return fmt.Sprintf("the store decided %s otherwise than limitctl computes", requests(r.Disagreements))
}

// judged is the limits whose audits say whether a run was right: shadows decide nothing.
func (r *Run) judged() []Limit {
	var limits []Limit
	for _, l := range r.Limits {
		if !l.Shadow && !l.Audit.Doubtful {
			limits = append(limits, l)
		}
	}
	if len(r.Limits) == 0 { // an old or a foreign document
		limits = []Limit{{Audit: r.Audit}}
	}
	return limits
}

// wrong is what an audit found wrong.
func (a *Audit) wrong() []string {
	var all []string
	if a.OverAdmitted > 0 {
		all = append(all, a.tooMany())
	}
	if a.UnderAdmitted > 0 && !a.UnderExplained {
		all = append(all, a.tooFew())
	}
	all = append(all, a.lies()...)
	return all
}

// tooMany says how much too much was admitted.
func (a *Audit) tooMany() string {
	return "admitted " + units(a.over()) + " too many" + onKeys(a.KeysOver)
}

// tooFew says how much too little was admitted.
func (a *Audit) tooFew() string {
	return "denied " + units(a.under()) + " that fitted" + onKeys(a.KeysUnder)
}

// over is the least number of units that were too many, which people are told: a unit too
// many leaves all that follow it too many, too. A document of a version that did not have
// it has all of them.
func (a *Audit) over() int64 {
	if a.LeastOverAdmitted == 0 {
		return a.OverAdmitted
	}
	return a.LeastOverAdmitted
}

func (a *Audit) under() int64 {
	if a.LeastUnderAdmitted == 0 {
		return a.UnderAdmitted
	}
	return a.LeastUnderAdmitted
}

func onKeys(n int64) string {
	if n == 0 { // not known
		return ""
	}
	return " on " + plural(n, "key")
}

// printVerdict prints whether all is well, before anything else.
func (d *Document) printVerdict(p *output.Printer) {
	d.judge()
	if d.Verdict == Fail {
		printLabelled(p, "FAIL", output.AtEnd, d.Reasons)
		return
	}
	text, style := d.passed()
	printLabelled(p, "PASS", style, text)
}

// mostReasons is how many reasons are shown to people before the rest is only counted.
const mostReasons = 8

// shortened is reasons as people are shown them.
func shortened(reasons []string) []string {
	if len(reasons) <= mostReasons+1 {
		return reasons
	}
	left := fmt.Sprintf("and %d more reasons; -o json lists them", len(reasons)-mostReasons)
	return append(slices.Clone(reasons[:mostReasons]), left)
}

// printLabelled prints texts after a label in the same colour, a line or more for each.
func printLabelled(p *output.Printer, label string, style output.Style, texts []string) {
	lead := p.Paint(style, label) + strings.Repeat(" ", indent-output.Width(label))
	if p.Width > 0 && p.Width < narrow {
		lead = p.Paint(style, label) + "  "
	}
	rest := strings.Repeat(" ", indent)
	if p.Width > 0 && p.Width < narrow {
		rest = strings.Repeat(" ", len(label)+2)
	}
	for _, text := range shortened(texts) {
		for _, part := range output.Wrap(output.Printable(text), p.Width-len(rest)) {
			fmt.Fprintln(p.Out, lead+p.Paint(style, part))
			lead = rest
		}
	}
}

// passed says what a pass is made of, and what it does not cover.
func (d *Document) passed() (texts []string, style output.Style) {
	var parts []string
	if d.isAudited() {
		parts = append(parts, "the audit found nothing wrong"+d.inRuns())
	}
	if n := int64(len(d.Thresholds)); n > 0 {
		parts = append(parts, plural(n, "threshold")+" kept")
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing is wrong that was looked at")
	}
	texts, style = []string{strings.Join(parts, "; ")}, output.Calm
	for i := range d.Runs {
		if uncovered := d.Runs[i].Shared.uncovered(); uncovered != "" {
			texts, style = append(texts, d.about(i)+uncovered), output.Near
		} else if untested := d.Runs[i].untested(d.Kind); untested != "" {
			texts, style = append(texts, d.about(i)+untested), output.Near
		}
	}
	return texts, style
}

// isAudited reports whether anything was decided that an audit could judge.
func (d *Document) isAudited() bool {
	return slices.ContainsFunc(d.Runs, func(r Run) bool { return r.Requests > 0 })
}

func (d *Document) inRuns() string {
	if len(d.Runs) < 2 {
		return ""
	}
	return fmt.Sprintf(" in %d runs", len(d.Runs))
}
