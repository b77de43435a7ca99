package report

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/junit"
	"github.com/limitctl/limitctl/internal/output"
)

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
			s.Cases = append(s.Cases, junit.Case{Class: r.Title(), Name: name, Failed: failed, Skipped: skipped, Said: said})
		}
		auditCases(r, d.Kind, d.Undecided(i), add)
		for _, t := range d.Thresholds {
			switch {
			case t.Run != i:
			case t.OK:
				add(t.Expression, "", "", t.Expression+": "+t.Actual)
			case t.NotJudged != "":
				add(t.Expression, "", t.Words(), "")
			default:
				add(t.Expression, t.Words(), "", "")
			}
		}
	}
	if len(d.Suggestions) > 0 {
		suite := junit.Suite{Name: "suggestions"}
		for i := range d.Suggestions {
			c := junit.Case{Class: "suggestions", Name: d.Suggestions[i].Promise + " of " + d.Suggestions[i].Limit}
			if c.Said = d.Suggestions[i].Words(); !d.Suggestions[i].Kept {
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
	add("answered", "", undecided, answersInWords(&r.Figures))
	for i := range r.Limits {
		l := &r.Limits[i]
		if l.Shadow {
			continue
		}
		about := ""
		if len(r.Limits) > 1 {
			about = l.Name + ": "
		}
		over, under, lies, doubt := "", "", "", ""
		if l.OverAdmitted > 0 {
			over = l.TooMany()
		}
		if l.UnderAdmitted > 0 && !l.UnderExplained {
			under = l.TooFew()
		}
		lies = strings.Join(l.LieWords(), "; ")
		if l.Doubtful {
			over, under, lies, doubt = "", "", "", "something else than the limit can explain what was found; see the warnings"
		}
		untested := doubt
		if over == "" && untested == "" && r.IsUntested(l, kind) {
			untested = l.NeverAbove()
		}
		add(about+"no over-admission", over, untested, "")
		if untested = doubt; under == "" && untested == "" {
			untested = r.UnderUntested(l)
		}
		add(about+"no under-admission", under, untested, "")
		if l.Lies != nil {
			add(about+"true answers", lies, doubt, fmt.Sprintf("%s were held against the truth", output.Count(l.Lies.Checked, "answer")))
		}
	}
	if r.Endpoint != nil {
		add("readable headers", strings.Join(r.Endpoint.WrongHeaders, "; "), "", "")
	}
	if r.Impossible.Count > 0 {
		add("possible answers", r.Impossible.Text, "", "")
	}
}
