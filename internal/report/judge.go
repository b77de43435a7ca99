package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// inWords describes the lie with its first evidence.
func (l *Lie) inWords() string {
	text := fmt.Sprintf("%s was told as %s and is %s", strings.ReplaceAll(l.Field, "_", "-"), l.Reported, l.True)
	if !l.At.IsZero() {
		text += ", at " + l.At.UTC().Format("15:04:05.000000")
	}
	if l.Key != "" {
		text += " of " + l.Key
	}
	if l.Answers > 1 {
		text += fmt.Sprintf("; %s told it wrong", output.Count(l.Answers, "answer"))
	}
	return text
}

// Lied reports whether an answer reported something wrong.
func (a *Audit) Lied() bool { return a.Lies != nil && a.Lies.Wrong > 0 }

// LieWords describes each field that answers reported wrong.
func (a *Audit) LieWords() []string {
	var all []string
	if a.Lied() {
		for i := range a.Lies.Fields {
			all = append(all, a.Lies.Fields[i].inWords())
		}
	}
	return all
}

// wrong is what is wrong with the clock, a sentence each.
func (c *StoreClock) wrong() []string {
	var all []string
	if c == nil {
		return nil
	}
	if c.Drift != 0 {
		way, percent := "fast", 100*math.Abs(c.Drift)
		if c.Drift < 0 {
			way = "slow"
		}
		all = append(all, fmt.Sprintf("the store's clock runs %.2g%% too %s, and periods are as much too %s",
			percent, way, map[string]string{"fast": "short", "slow": "long"}[way]))
	}
	if c.Jumps > 0 {
		all = append(all, fmt.Sprintf("the store's clock jumped %s, by up to %s", times(c.Jumps), c.farthest()))
	}
	if c.Astray > 0 {
		all = append(all, fmt.Sprintf("%s at an instant that it cannot have been, by up to %s",
			output.Count(c.Astray, "answer")+" told that it was decided", c.farthest()))
	}
	return all
}

func (c *StoreClock) farthest() string {
	return output.Duration(fromMS(math.Ceil(math.Abs(c.FarthestMS))))
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%s times", output.Thousands(n))
}

// Words says which count keeps the promise.
func (s *Suggestion) Words() string {
	switch {
	case !s.Kept:
		return fmt.Sprintf("%s of %s: no count keeps it; at %s it is %s", s.Promise, s.Limit, output.Thousands(s.Count), s.Actual)
	case s.Below == "":
		return fmt.Sprintf("%s needs %s: %s", s.Promise, s.Limit, s.Actual)
	}
	return fmt.Sprintf("%s needs %s: %s, and with one less %s", s.Promise, s.Limit, s.Actual, s.Below)
}

// The verdicts on a whole document.
const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
	// Inconclusive: nothing is known to be wrong, and too little was seen to pass.
	Inconclusive Verdict = "inconclusive"
)

// Judge sets the verdict and its reasons by what else is in the document.
func (d *Document) Judge() {
	d.Verdict, d.Reasons = Pass, []string{}
	for i := range d.Runs {
		for _, wrong := range d.Runs[i].Wrong() {
			d.Reasons = append(d.Reasons, d.About(i)+wrong)
		}
	}
	for _, t := range d.Thresholds {
		if t.IsMissed() {
			d.Reasons = append(d.Reasons, d.About(t.Run)+t.Words())
		}
	}
	for i := range d.Suggestions {
		if s := &d.Suggestions[i]; !s.Kept {
			d.Reasons = append(d.Reasons, s.Words())
		}
	}
	if len(d.Reasons) > 0 {
		d.Verdict = Fail
	} else if doubts := d.Doubts(); len(doubts) > 0 {
		d.Verdict, d.Reasons = Inconclusive, doubts
	}
	d.Passed = d.Verdict == Pass
}

// AuditFailed reports whether the answers of a run were wrong: more or less was admitted
// than the limit allows, or an answer reported something wrong.
func (d *Document) AuditFailed() bool {
	return slices.ContainsFunc(d.Runs, func(r Run) bool { return len(r.Wrong()) > 0 })
}

// About is the title of a run and a colon, where there are several to tell apart.
func (d *Document) About(run int) string {
	if len(d.Runs) < 2 {
		return ""
	}
	return d.Runs[run].Title() + ": "
}

// IsMissed reports whether the promise was judged and not kept.
func (t *Threshold) IsMissed() bool { return !t.OK && t.NotJudged == "" }

// Words says what became of the promise.
func (t *Threshold) Words() string {
	switch {
	case t.NotJudged != "":
		return fmt.Sprintf("%s was not judged: it was %s, and %s", t.Expression, t.Actual, t.NotJudged)
	case t.OK:
		return fmt.Sprintf("%s: %s", t.Expression, t.Actual)
	}
	return fmt.Sprintf("%s was missed: %s", t.Expression, t.Actual)
}

// Wrong is what the audit of a run found wrong, a sentence each. A limit's audit that is
// doubtful proves nothing.
func (r *Run) Wrong() []string {
	var all []string
	limits := r.Judged()
	for _, l := range limits {
		for _, wrong := range l.Audit.Wrong() {
			if len(limits) > 1 {
				wrong = l.Name + ": " + wrong
			}
			all = append(all, wrong)
		}
	}
	if r.Endpoint != nil {
		all = append(all, r.Endpoint.WrongHeaders...)
	}
	if wrong := &r.Impossible; wrong.Count > 0 {
		all = append(all, fmt.Sprintf("%s that no store gives; the first: %s", output.Count(wrong.Count, "answer"), wrong.Text))
	}
	return append(all, r.Clock.wrong()...)
}

// Judged is the limits whose audits say whether a run was right: shadows decide nothing.
func (r *Run) Judged() []Limit {
	var limits []Limit
	for _, l := range r.Limits {
		if !l.Shadow && !l.Audit.Doubtful {
			limits = append(limits, l)
		}
	}
	if len(r.Limits) == 0 { // an old or a foreign document
		limits = []Limit{{Audit: r.Audit, Denied: r.Denied}}
	}
	return limits
}

// Wrong is what an audit found wrong.
func (a *Audit) Wrong() []string {
	var all []string
	if a.OverAdmitted > 0 {
		all = append(all, a.TooMany())
	}
	if a.UnderAdmitted > 0 && !a.UnderExplained {
		all = append(all, a.TooFew())
	}
	all = append(all, a.LieWords()...)
	return all
}

// TooMany says how much too much was admitted.
func (a *Audit) TooMany() string {
	return "admitted " + output.Count(a.Over(), "unit") + " too many" + onKeys(a.KeysOver)
}

// TooFew says how much too little was admitted.
func (a *Audit) TooFew() string {
	return "denied " + output.Count(a.Under(), "unit") + " that fitted" + onKeys(a.KeysUnder)
}

// Over is the least number of units that were too many, which reports show to people: a unit too
// many leaves all that follow it too many, too. A document of a version that did not have
// it has all of them.
func (a *Audit) Over() int64 {
	if a.LeastOver == 0 {
		return a.OverAdmitted
	}
	return a.LeastOver
}

// Under is as Over for what was denied wrongly.
func (a *Audit) Under() int64 {
	if a.LeastUnder == 0 {
		return a.UnderAdmitted
	}
	return a.LeastUnder
}

func onKeys(n int64) string {
	if n == 0 { // not known
		return ""
	}
	return " on " + output.Count(n, "key")
}

// Title names the run among those of its document: "token-bucket 100/1m".
func (r *Run) Title() string {
	title := strings.TrimSpace(r.Algorithm + " " + r.limit())
	if strings.Contains(r.Limit, " and ") { // each is written with its algorithm
		title = r.Limit
	}
	if r.Policy != "" {
		title = strings.TrimSpace("policy " + r.Policy + ": " + title)
	}
	if r.Implementation == Naive {
		title += " (naive)"
	}
	return title
}

// limit is the limit without the algorithm, which it may be written with.
func (r *Run) limit() string { return strings.TrimPrefix(r.Limit, r.Algorithm+":") }
