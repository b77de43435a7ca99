package report

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/junit"
)

// JUnit returns the document as JUnit XML: a suite for each run, and in it a test case for
// each thing that is judged.
func (d *Document) JUnit() []byte {
	suites := make([]junit.Suite, len(d.Runs))
	for i := range d.Runs {
		r := &d.Runs[i]
		s := &suites[i]
		*s = junit.Suite{Name: r.Title(), Began: r.StartedAt, Took: milliseconds(r.DurationMS)}
		if d.Origin != nil {
			s.Host = d.Origin.Host
		}
		add := func(name, failed, skipped, said string) {
			s.Cases = append(s.Cases, junit.Case{Class: r.Title(), Name: name, Failed: failed, Skipped: skipped, Said: said})
		}
		r.auditCases(d.Kind, add)
		for _, t := range d.Thresholds {
			switch {
			case t.Run != i:
			case t.OK:
				add(t.Expression, "", "", t.Expression+": "+t.Actual)
			default:
				add(t.Expression, t.missed(), "", "")
			}
		}
	}
	if len(d.Suggestions) > 0 {
		suite := junit.Suite{Name: "suggestions"}
		for i := range d.Suggestions {
			c := junit.Case{Class: "suggestions", Name: d.Suggestions[i].Promise + " of " + d.Suggestions[i].Limit}
			if c.Said = d.Suggestions[i].finding().text; !d.Suggestions[i].Kept {
				c.Failed, c.Said = c.Said, ""
			}
			suite.Cases = append(suite.Cases, c)
		}
		suites = append(suites, suite)
	}
	return junit.XML(suites...)
}

// auditCases are the tests that the audit of a run is made of.
func (r *Run) auditCases(kind Kind, add func(name, failed, skipped, said string)) {
	answered := r.Allowed + r.Denied + r.Local + r.Unguarded
	switch {
	case r.Requests == 0:
		add("answered", "", "nothing was sent", "")
	case answered == 0:
		add("answered", "no request was answered", "", "")
	default:
		add("answered", "", "", r.answersInWords())
	}
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
			over = l.tooMany()
		}
		if l.UnderAdmitted > 0 && !l.UnderExplained {
			under = l.tooFew()
		}
		lies = strings.Join(l.lies(), "; ")
		if l.Doubtful {
			over, under, lies, doubt = "", "", "", "something else than the limit can explain what was found; see the warnings"
		}
		untested := doubt
		if over == "" && untested == "" && l.isUntested(kind, r) {
			untested = fmt.Sprintf("never above %s of the limit", percentUp(l.reached()))
		}
		add(about+"no over-admission", over, untested, "")
		add(about+"no under-admission", under, doubt, "")
		if l.Lies != nil {
			add(about+"true answers", lies, doubt, fmt.Sprintf("%s were held against the truth", plural(l.Lies.Checked, "answer")))
		}
	}
	if r.Store != NoStore && kind == Simulation {
		failed := ""
		if r.Disagreements > 0 {
			failed = r.disagreed()
		}
		add("decided as computed", failed, "", "")
	}
}

// JUnit returns the comparison as JUnit XML: a test case for each figure that is judged.
func (c *Comparison) JUnit() []byte {
	var suites []junit.Suite
	for _, run := range c.Runs {
		s := junit.Suite{Name: run.Run}
		for i := range run.Differences {
			d := &run.Differences[i]
			if !d.Judged {
				continue
			}
			one := junit.Case{Class: run.Run, Name: d.Metric}
			if d.Verdict == Worse {
				one.Failed = d.inWords()
			} else {
				one.Said = d.inWords()
			}
			s.Cases = append(s.Cases, one)
		}
		suites = append(suites, s)
	}
	return junit.XML(suites...)
}
