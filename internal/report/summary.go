package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/junit"
	"github.com/limitctl/limitctl/internal/markdown"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Markdown returns the document as a summary for a pull request or the page of a build: the verdict, and all that a
// terminal of a hundred columns shows.
func (a Answer) Markdown() []byte {
	var b strings.Builder
	a.Report.Judge()
	Heading(&b, a.Report.Verdict, a.what(markdown.Code))
	shown(&b, Answer{Report: a.Report, Verbose: true})
	if o := a.Report.Origin; o != nil {
		fmt.Fprintf(&b, "<sub>limitctl %s · %s</sub>\n", markdown.Text(shortName(o.Version)),
			markdown.Code(output.Cut(o.Command, longestFact)))
	}
	return []byte(b.String())
}

// shown writes what a terminal shows of an answer, between fences that are not in it.
func shown(b *strings.Builder, a output.Answer) {
	var text bytes.Buffer
	a.Print(&output.Printer{Out: &text, Width: 100})
	fence := "```"
	for strings.Contains(text.String(), fence) {
		fence += "`"
	}
	fmt.Fprintf(b, "%s\n%s%s\n\n", fence, &text, fence)
}

// what names what a document is of, with the title of a single run as code writes it.
func (a Answer) what(code func(string) string) string {
	kind := map[Kind]string{LoadTest: "load test", Simulation: "simulation"}[a.Report.Kind]
	if len(a.Report.Runs) == 1 {
		return kind + " of " + code(shortName(a.Report.Runs[0].Title()))
	}
	return kind + " of " + output.Count(int64(len(a.Report.Runs)), "run")
}

// Ruling returns the verdict on the document, and why it did not pass.
func (a Answer) Ruling() (verdict Verdict, what string, reasons []string) {
	a.Report.Judge()
	return a.Report.Verdict, a.what(func(title string) string { return title }),
		slices.Clone(shortened(a.Report.Reasons, mostReasons))
}

// Heading writes the verdict on something.
func Heading(b *strings.Builder, v Verdict, what string) {
	word := map[Verdict]string{Pass: "✅ PASS", Fail: "❌ FAIL", Inconclusive: "❔ INCONCLUSIVE"}[v]
	fmt.Fprintf(b, "### %s: %s\n\n", word, what)
}

// JUnit returns the document as JUnit XML: a suite for each run, and in it a test case for
// each thing that is judged.
func (a Answer) JUnit() []byte {
	d := a.Report
	suites := make([]junit.Suite, len(d.Runs))
	for i := range d.Runs {
		r := &d.Runs[i]
		s := &suites[i]
		*s = junit.Suite{Name: r.Title(), Began: r.StartedAt, Took: fromMS(r.DurationMS)}
		if d.Origin != nil {
			s.Host = d.Origin.Host
		}
		add := func(name, failed, skipped, said string) {
			s.Cases = append(s.Cases, junit.Case{Class: r.Title(), Name: name, Failed: failed, Skipped: skipped,
				Said: said})
		}
		auditCases(r, d.Kind, d.undecided(i), add)
		for _, t := range d.Thresholds {
			failed, skipped, said := "", "", ""
			switch {
			case t.Run != i:
				continue
			case t.OK:
				said = t.words()
			case t.NotJudged == "":
				failed = t.words()
			default:
				skipped = t.words()
			}
			add(t.Expression, failed, skipped, said)
		}
	}
	if len(d.Suggestions) > 0 {
		suite := junit.Suite{Name: "suggestions"}
		for i := range d.Suggestions {
			c := junit.Case{Class: "suggestions", Name: d.Suggestions[i].Promise + " of " + d.Suggestions[i].Limit}
			if c.Said = d.Suggestions[i].words(); !d.Suggestions[i].Kept {
				c.Failed, c.Said = c.Said, ""
			}
			suite.Cases = append(suite.Cases, c)
		}
		suites = append(suites, suite)
	}
	return junit.XML(suites...)
}

// auditCases are the tests that the audit of a run is made of.
func auditCases(r *Run, kind Kind, undecided string, add func(name, failed, skipped, said string)) {
	if r.Requests == 0 && undecided == "" {
		undecided = "nothing was sent"
	}
	add("answered", "", undecided, answersInWords(r))
	for i := range r.Limits {
		l := &r.Limits[i]
		if l.Shadow {
			continue
		}
		about := ""
		if len(r.Limits) > 1 {
			about = l.Name + ": "
		}
		over, under, lies := tooMany(&l.Audit), tooFew(&l.Audit), strings.Join(untrue(&l.Audit), "; ")
		doubt, notOver, notUnder := "", "", ""
		switch {
		case l.Doubtful:
			over, under, lies, doubt = "", "", "",
				"something else than the limit can explain what was found; see the warnings"
			notOver, notUnder = doubt, doubt
		case over == "" && kind != Simulation && l.Reached() < 1:
			notOver = neverAbove(l)
		}
		if under+notUnder == "" {
			notUnder = r.underUntested(l)
		}
		add(about+"no over-admission", over, notOver, "")
		add(about+"no under-admission", under, notUnder, "")
		if l.Lies != nil {
			add(about+"true answers", lies, doubt, fmt.Sprintf("%s were held against the truth",
				output.Count(l.Lies.Checked, "answer")))
		}
	}
	if r.Endpoint != nil {
		add("readable headers", strings.Join(r.Endpoint.WrongHeaders, "; "), "", "")
	}
	if r.Impossible.Count > 0 {
		add("possible answers", r.Impossible.Text, "", "")
	}
}

// underUntested says why the audit of a limit could not find what it denied wrongly; empty if it could.
func (r *Run) underUntested(l *loadgen.Limit) string {
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
