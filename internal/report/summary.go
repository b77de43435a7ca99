package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/junit"
	"github.com/limitctl/limitctl/internal/output"
)

// Summary is what CI systems show of an answer.
type Summary struct {
	Verdict Verdict
	What    string // was judged, such as "limit of"
	Of      string // its name, which may be of others
	Answer  output.Answer
	Suites  []junit.Suite // a test case for each thing that was judged
}

// Markdown returns the verdict and what a terminal of a hundred columns shows of the answer, between fences that are
// not in it.
func (s *Summary) Markdown() []byte {
	var text bytes.Buffer
	s.Answer.Print(&output.Printer{Out: &text, Width: 100})
	fence := "```"
	for strings.Contains(text.String(), fence) {
		fence += "`"
	}
	word := map[Verdict]string{Pass: "✅ PASS", Fail: "❌ FAIL", Inconclusive: "❔ INCONCLUSIVE"}[s.Verdict]
	of := ""
	if s.Of != "" {
		of = " " + code(s.Of)
	}
	return fmt.Appendf(nil, "### %s: %s%s\n\n%s\n%s%s\n", word, s.What, of, fence, &text, fence)
}

// code writes a text as code in Markdown, where @ notifies nobody, and an address does not become a link.
func code(text string) string {
	text = output.Printable(text)
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + text + fence
}

// JUnit returns the test cases as JUnit XML.
func (s *Summary) JUnit() []byte { return junit.XML(s.Suites...) }

// Summary returns the summary of a report: a suite for each run. As for the exit code, a promise that could not be
// judged fails and, if strict, what was not seen of an inconclusive report.
func (a Answer) Summary(strict bool) *Summary {
	d := a.Report
	d.Judge()
	s := &Summary{Verdict: d.Verdict, Answer: Answer{Report: d, Verbose: true},
		Suites: make([]junit.Suite, len(d.Runs))}
	s.What = map[Kind]string{LoadTest: "load test of", Simulation: "simulation of"}[d.Kind]
	if len(d.Runs) == 1 {
		s.Of = shortName(d.Runs[0].Title())
	} else {
		s.What += " " + output.Count(int64(len(d.Runs)), "run")
	}
	for i := range d.Runs {
		r := &d.Runs[i]
		s.Suites[i] = junit.Suite{Name: r.Title(), Began: r.StartedAt, Took: fromMS(r.DurationMS)}
		answered := check{name: "answered", verdict: Pass, words: []string{answersInWords(r)}}
		if undecided := d.undecided(i); undecided != "" {
			answered.verdict, answered.words = Fail, []string{undecided}
		} else if unfinished := d.unfinished(); unfinished != "" && i == len(d.Runs)-1 {
			answered.verdict, answered.words = Fail, []string{unfinished}
		} else if r.Requests == 0 {
			answered.verdict, answered.words = Inconclusive, []string{"nothing was sent"}
		}
		s.Suites[i].Cases = slices.Concat(cases(0, answered), cases(0, r.audits(d.Kind)...), cases(i, d.promised()...))
	}
	if len(d.Suggestions) > 0 {
		s.Suites = append(s.Suites, junit.Suite{Name: "suggestions", Cases: cases(-1, d.promised()...)})
	}
	for _, suite := range s.Suites {
		for i, c := range suite.Cases {
			if strict && d.Verdict == Inconclusive && c.Skipped != "" {
				suite.Cases[i].Failed, suite.Cases[i].Skipped = c.Skipped, ""
			}
		}
	}
	return s
}

// cases are the checks of a run as tests. What was not judged is skipped.
func cases(run int, checks ...check) (all []junit.Case) {
	for _, c := range checks {
		one, words := junit.Case{Name: c.name}, strings.Join(c.words, "; ")
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
