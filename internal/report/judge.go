package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// inWords describes the lie with its first evidence.
func lieInWords(l *loadgen.Lie) string {
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

// lieWords describes each field that answers reported wrong.
func lieWords(a *loadgen.Audit) (all []string) {
	for i := 0; a.Lies != nil && i < len(a.Lies.Fields); i++ {
		all = append(all, lieInWords(&a.Lies.Fields[i]))
	}
	return all
}

// clockWrong is what is wrong with the clock, a sentence each.
func clockWrong(c *loadgen.ClockFinding) []string {
	var all []string
	if c == nil {
		return nil
	}
	farthest := output.Duration(fromMS(math.Ceil(math.Abs(c.FarthestMS))))
	if c.Drift != 0 {
		way, percent := "fast", 100*math.Abs(c.Drift)
		if c.Drift < 0 {
			way = "slow"
		}
		all = append(all, fmt.Sprintf("the store's clock runs %.2g%% too %s, and periods are as much too %s",
			percent, way, map[string]string{"fast": "short", "slow": "long"}[way]))
	}
	if c.Jumps > 0 {
		all = append(all, fmt.Sprintf("the store's clock jumped %s, by up to %s", times(c.Jumps), farthest))
	}
	if c.Astray > 0 {
		all = append(all, fmt.Sprintf("%s at an instant that it cannot have been, by up to %s",
			output.Count(c.Astray, "answer")+" told that it was decided", farthest))
	}
	return all
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

// judgement is what speaks against a document, a sentence each: what is wrong, which promises were missed, why too little was
// seen, and which promises were not judged.
type judgement struct{ wrong, missed, doubts, open []string }

func (d *Document) judge() (j judgement) {
	for i := range d.Runs {
		for _, wrong := range d.Runs[i].Wrong() {
			j.wrong = append(j.wrong, d.About(i)+wrong)
		}
		if undecided := d.Undecided(i); undecided != "" {
			j.doubts = append(j.doubts, d.About(i)+undecided)
		} else if doubt := d.Runs[i].doubt(d.Kind); doubt != "" {
			j.doubts = append(j.doubts, d.About(i)+doubt)
		}
	}
	for _, t := range d.Thresholds {
		if t.NotJudged != "" {
			j.open = append(j.open, d.About(t.Run)+t.Words())
		} else if !t.OK {
			j.missed = append(j.missed, d.About(t.Run)+t.Words())
		}
	}
	for i := range d.Suggestions {
		if s := &d.Suggestions[i]; !s.Kept {
			j.missed = append(j.missed, s.Words())
		}
	}
	return j
}

// Judge sets the verdict and its reasons by what else is in the document.
func (d *Document) Judge() {
	j := d.judge()
	d.Verdict, d.Reasons = Pass, []string{}
	if wrong := append(j.wrong, j.missed...); len(wrong) > 0 {
		d.Verdict, d.Reasons = Fail, wrong
	} else if doubts := append(j.doubts, j.open...); len(doubts) > 0 {
		d.Verdict, d.Reasons = Inconclusive, doubts
	}
	d.Passed = d.Verdict == Pass
}

// Failed reports whether the exit code says no: a promise was missed, too many requests got no decision or, unless lenient, an
// answer was wrong or a promise not judged; if strict, whatever else makes the verdict inconclusive.
func (d *Document) Failed(lenient, strict bool) bool {
	j := d.judge()
	return len(j.missed) > 0 || d.IsUndecided() || !lenient && len(j.wrong)+len(j.open) > 0 || strict && len(j.doubts)+len(j.open) > 0
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
		for _, wrong := range wrongOf(&l.Audit) {
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
	return append(all, clockWrong(r.Clock)...)
}

// Judged is the limits whose audits say whether a run was right: shadows decide nothing.
func (r *Run) Judged() []loadgen.Limit {
	var limits []loadgen.Limit
	for _, l := range r.Limits {
		if !l.Shadow && !l.Audit.Doubtful {
			limits = append(limits, l)
		}
	}
	if len(r.Limits) == 0 { // an old or a foreign document
		limits = []loadgen.Limit{{Audit: r.Audit, Denied: r.Denied}}
	}
	return limits
}

// wrongOf is what an audit found wrong.
func wrongOf(a *loadgen.Audit) []string {
	var all []string
	if a.OverAdmitted > 0 {
		all = append(all, tooMany(a))
	}
	if a.UnderAdmitted > 0 && !a.UnderExplained {
		all = append(all, tooFew(a))
	}
	return append(all, lieWords(a)...)
}

// tooMany says how much too much was admitted.
func tooMany(a *loadgen.Audit) string {
	return "admitted " + output.Count(a.Over(), "unit") + " too many" + onKeys(a.KeysOver)
}

// tooFew says how much too little was admitted.
func tooFew(a *loadgen.Audit) string {
	return "denied " + output.Count(a.Under(), "unit") + " that fitted" + onKeys(a.KeysUnder)
}

func onKeys(n int64) string {
	if n == 0 { // not known
		return ""
	}
	return " on " + output.Count(n, "key")
}

// Title names the run among those of its document: "token-bucket 100/1m".
func (r *Run) Title() string {
	if r.Implementation == Naive {
		return r.under() + " (naive)"
	}
	return r.under()
}

// under is the limit or the policy of the run.
func (r *Run) under() string {
	title := strings.TrimSpace(r.Algorithm + " " + r.limit())
	if strings.Contains(r.Limit, " and ") { // each is written with its algorithm
		title = r.Limit
	}
	if r.Policy != "" {
		title = strings.TrimSpace("policy " + r.Policy + ": " + title)
	}
	return title
}

// limit is the limit without the algorithm, which it may be written with.
func (r *Run) limit() string { return strings.TrimPrefix(r.Limit, r.Algorithm+":") }

// defaultMaxErrors is the share of the planned requests of a load test that may get no decision.
const defaultMaxErrors = 0.01

// Planned is the requests that were to be sent.
func (r *Run) Planned() int64 { return r.Requests + r.Dropped }

// undecided is how many of the planned requests got no decision.
func (r *Run) undecided() int64 { return r.Errors + r.Dropped }

// mayFail is the share of planned requests that may get no decision.
func (d *Document) mayFail() float64 {
	if d.MaxErrors == nil { // of a version that did not have it
		return defaultMaxErrors
	}
	return *d.MaxErrors
}

// Undecided says how many requests of a run got no decision, if they are too many, or that no answer of an endpoint was one.
func (d *Document) Undecided(run int) string {
	r := &d.Runs[run]
	if r.Denied == 0 && r.Allowed > 0 && len(r.Statuses) > 0 && !r.succeeded() {
		return "no answer was a success or a denial: " + statusesInWords(r)
	}
	n := r.undecided()
	if float64(n) <= d.mayFail()*float64(r.Planned()) {
		return ""
	}
	return fmt.Sprintf("%s of %s got no decision (%s), and at most %s%% may: %s failed%s, and %s were dropped",
		output.Thousands(n), output.Count(r.Planned(), "planned request"), output.Share(n, r.Planned()),
		strconv.FormatFloat(100*d.mayFail(), 'g', 6, 64), output.Thousands(r.Errors), r.TimedOutWords(), output.Thousands(r.Dropped))
}

// succeeded reports whether an answer had a status of success, or of gRPC, whose errors are counted as such.
func (r *Run) succeeded() bool {
	for status := range r.Statuses {
		if n, err := strconv.Atoi(status); err != nil || n/100 == 2 {
			return true
		}
	}
	return false
}

// IsUndecided reports whether too many requests of a run got no decision.
func (d *Document) IsUndecided() bool {
	for i := range d.Runs {
		if d.Undecided(i) != "" {
			return true
		}
	}
	return false
}

// TimedOutWords says how many of the errors were time-outs, to be put after their number.
func (f *Run) TimedOutWords() string {
	if f.TimedOut == 0 {
		return ""
	}
	return fmt.Sprintf(", of which %s timed out", output.Thousands(f.TimedOut))
}

// doubt is why too little of a run was seen. A simulation tries what a limit would have done, and is not wrong
// because that is nothing.
func (r *Run) doubt(kind Kind) string {
	limits := r.Judged()
	switch {
	case kind == Simulation:
		return ""
	case r.Requests == 0:
		return "nothing was sent, so nothing is known"
	case len(limits) == 0:
		return "the audit proves nothing, because something else than the limit can explain what it finds; see the warnings"
	}
	if r.Denied > 0 || slices.ContainsFunc(limits, func(l loadgen.Limit) bool { return l.Reached() >= 1 }) {
		return "" // of an endpoint with several limits nobody knows which of them denied
	}
	return r.Untested(kind)
}

// IsUntested reports whether a limit of the run was never reached, so that its audit could not find
// what it admits too many. A simulation is right by construction.
func (r *Run) IsUntested(l *loadgen.Limit, kind Kind) bool {
	return l.Reached() < 1 && kind != Simulation
}

// UnderUntested says why the audit of a limit could not find what it denied wrongly; empty if it could.
func (r *Run) UnderUntested(l *loadgen.Limit) string {
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

// Untested says which limit was reached least, and that it was never reached; empty if all were reached.
func (r *Run) Untested(kind Kind) string {
	if r.Requests == 0 {
		return "nothing was sent, so nothing is known"
	}
	limits := r.Judged()
	var least *loadgen.Limit
	for i := range limits {
		if r.IsUntested(&limits[i], kind) && (least == nil || limits[i].Reached() < least.Reached()) {
			least = &limits[i]
		}
	}
	if least == nil {
		return ""
	}
	name := ""
	if len(r.Limits) > 1 {
		name = least.Name + " was "
	}
	return name + neverAbove(least) + ", so over-admission was not tested; ask for more, or let fewer keys ask"
}

// neverAbove says how much of the limit was in use at most. It rounds up a share that is below 1.
func neverAbove(l *loadgen.Limit) string {
	const rounding = 1e-9 // of a float
	percent := math.Max(0, math.Ceil(100*l.Reached()-rounding))
	return fmt.Sprintf("never above %.0f%% of the limit", math.Min(percent, 99))
}
