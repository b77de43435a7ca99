package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/junit"
	"github.com/limitctl/limitctl/internal/markdown"
	"github.com/limitctl/limitctl/internal/output"
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

// JUnit returns the document as JUnit XML: a suite for each run, and in it a test case for each thing that is judged. As for
// the exit code, a promise that could not be judged fails.
func (a Answer) JUnit() []byte {
	d := a.Report
	suites := make([]junit.Suite, len(d.Runs))
	for i := range d.Runs {
		r := &d.Runs[i]
		suites[i] = junit.Suite{Name: r.Title(), Began: r.StartedAt, Took: fromMS(r.DurationMS)}
		if d.Origin != nil {
			suites[i].Host = d.Origin.Host
		}
		answered := check{name: "answered", verdict: Pass, words: []string{answersInWords(r)}}
		if undecided := d.undecided(i); undecided != "" {
			answered.verdict, answered.words = Fail, []string{undecided}
		} else if d.Interrupted && i == len(d.Runs)-1 {
			answered.verdict, answered.words = Fail, []string{"it was interrupted"}
		} else if r.Requests == 0 {
			answered.verdict, answered.words = Inconclusive, []string{"nothing was sent"}
		}
		suites[i].Cases = slices.Concat(cases(r.Title(), 0, answered), cases(r.Title(), 0, r.audits(d.Kind)...),
			cases(r.Title(), i, d.promised()...))
	}
	if len(d.Suggestions) > 0 {
		suites = append(suites, junit.Suite{Name: "suggestions", Cases: cases("suggestions", -1, d.promised()...)})
	}
	return junit.XML(suites...)
}

// cases are the checks of a run as tests. What was not judged is skipped.
func cases(class string, run int, checks ...check) (all []junit.Case) {
	for _, c := range checks {
		one, words := junit.Case{Class: class, Name: c.name}, strings.Join(c.words, "; ")
		switch {
		case c.run != run:
			continue
		case c.verdict == Fail, c.verdict == Inconclusive && c.promise:
			one.Failed = words
		case c.verdict == Inconclusive:
			one.Skipped = words
		default:
			one.Said = words
		}
		all = append(all, one)
	}
	return all
}
