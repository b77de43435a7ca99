package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// The verdicts on a whole document.
const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
	// Inconclusive: nothing is known to be wrong, and too little was seen to pass.
	Inconclusive Verdict = "inconclusive"
)

// judgement is what speaks against a document, a sentence each: what is wrong, which promises were missed, why too
// little was seen, and which promises were not judged.
type judgement struct{ wrong, missed, doubts, open []string }

func (d *Document) judge() (j judgement) {
	for i := range d.Runs {
		about := d.about(i)
		for _, wrong := range d.Runs[i].wrong() {
			j.wrong = append(j.wrong, about+wrong)
		}
		if doubt := d.undecided(i); doubt != "" {
			j.doubts = append(j.doubts, about+doubt)
		} else if doubt := d.Runs[i].doubt(d.Kind); doubt != "" {
			j.doubts = append(j.doubts, about+doubt)
		}
	}
	for _, t := range d.Thresholds {
		if t.NotJudged != "" {
			j.open = append(j.open, d.about(t.Run)+t.words())
		} else if !t.OK {
			j.missed = append(j.missed, d.about(t.Run)+t.words())
		}
	}
	for i := range d.Suggestions {
		if s := &d.Suggestions[i]; !s.Kept {
			j.missed = append(j.missed, s.words())
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

// Failed reports whether the exit code says no: a promise was missed, too many requests got no decision or, unless
// lenient, an answer was wrong or a promise not judged; if strict, whatever else makes the verdict inconclusive.
func (d *Document) Failed(lenient, strict bool) bool {
	j := d.judge()
	for i := range d.Runs {
		if d.undecided(i) != "" {
			return true
		}
	}
	return len(j.missed) > 0 || !lenient && len(j.wrong)+len(j.open) > 0 || strict && len(j.doubts)+len(j.open) > 0
}

// AuditFailed reports whether the answers of a run were wrong: more or less was admitted
// than the limit allows, or an answer reported something wrong.
func (d *Document) AuditFailed() bool { return len(d.judge().wrong) > 0 }

// about is the title of a run and a colon, where there are several to tell apart.
func (d *Document) about(run int) string {
	if len(d.Runs) < 2 {
		return ""
	}
	return d.Runs[run].Title() + ": "
}

// words says what became of the promise.
func (t *Threshold) words() string {
	switch {
	case t.NotJudged != "":
		return fmt.Sprintf("%s was not judged: it was %s, and %s", t.Expression, t.Actual, t.NotJudged)
	case t.OK:
		return fmt.Sprintf("%s: %s", t.Expression, t.Actual)
	}
	return fmt.Sprintf("%s was missed: %s", t.Expression, t.Actual)
}

// words says which count keeps the promise.
func (s *Suggestion) words() string {
	switch {
	case !s.Kept:
		return fmt.Sprintf("%s of %s: no count keeps it; at %s it is %s", s.Promise, s.Limit, output.Thousands(s.Count),
			s.Actual)
	case s.Below == "":
		return fmt.Sprintf("%s needs %s: %s", s.Promise, s.Limit, s.Actual)
	}
	return fmt.Sprintf("%s needs %s: %s, and with one less %s", s.Promise, s.Limit, s.Actual, s.Below)
}

// wrong is what the audit of a run found wrong, a sentence each. A limit's audit that is
// doubtful proves nothing.
func (r *Run) wrong() (all []string) {
	limits := r.judged()
	for _, l := range limits {
		for _, wrong := range append([]string{tooMany(&l.Audit), tooFew(&l.Audit)}, untrue(&l.Audit)...) {
			if wrong != "" && len(limits) > 1 {
				wrong = l.Name + ": " + wrong
			}
			all = append(all, wrong)
		}
	}
	if r.Endpoint != nil {
		all = append(all, r.Endpoint.WrongHeaders...)
	}
	if wrong := &r.Impossible; wrong.Count > 0 {
		all = append(all, fmt.Sprintf("%s that no store gives; the first: %s", output.Count(wrong.Count, "answer"),
			wrong.Text))
	}
	all = append(all, clockWrong(r.Clock)...)
	return slices.DeleteFunc(all, func(wrong string) bool { return wrong == "" })
}

// judged is the limits whose audits say whether a run was right: shadows decide nothing.
func (r *Run) judged() (limits []loadgen.Limit) {
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

// tooMany says how much too much was admitted, and tooFew how much too little, if any.
func tooMany(a *loadgen.Audit) string {
	if a.OverAdmitted == 0 {
		return ""
	}
	return "admitted " + output.Count(a.Over(), "unit") + " too many" + onKeys(a.KeysOver)
}

func tooFew(a *loadgen.Audit) string {
	if a.UnderAdmitted == 0 || a.UnderExplained {
		return ""
	}
	return "denied " + output.Count(a.Under(), "unit") + " that fitted" + onKeys(a.KeysUnder)
}

func onKeys(n int64) string {
	if n == 0 { // not known
		return ""
	}
	return " on " + output.Count(n, "key")
}

// untrue describes each field that answers reported wrong, with its first evidence.
func untrue(a *loadgen.Audit) (all []string) {
	if a.Lies == nil {
		return nil
	}
	for _, l := range a.Lies.Fields {
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
		all = append(all, text)
	}
	return all
}

// clockWrong is what is wrong with the clock, a sentence each.
func clockWrong(c *loadgen.ClockFinding) (all []string) {
	if c == nil {
		return nil
	}
	farthest := output.Duration(fromMS(math.Ceil(math.Abs(c.FarthestMS))))
	switch percent := 100 * math.Abs(c.Drift); {
	case c.Drift > 0:
		all = append(all, fmt.Sprintf("the store's clock runs %.2g%% too fast, and periods are as much too short",
			percent))
	case c.Drift < 0:
		all = append(all, fmt.Sprintf("the store's clock runs %.2g%% too slow, and periods are as much too long",
			percent))
	}
	if c.Jumps > 0 {
		all = append(all, fmt.Sprintf("the store's clock jumped %s × by up to %s", output.Thousands(c.Jumps), farthest))
	}
	if c.Astray > 0 {
		all = append(all, fmt.Sprintf("%s told that it was decided at an instant that it cannot have been, by up to %s",
			output.Count(c.Astray, "answer"), farthest))
	}
	return all
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
	title := strings.TrimSpace(r.Algorithm + " " + strings.TrimPrefix(r.Limit, r.Algorithm+":"))
	if strings.Contains(r.Limit, " and ") { // each is written with its algorithm
		title = r.Limit
	}
	if r.Policy != "" {
		title = strings.TrimSpace("policy " + r.Policy + ": " + title)
	}
	return title
}

// Planned is the requests that were to be sent.
func (r *Run) Planned() int64 { return r.Requests + r.Dropped }

// mayFail is the share of planned requests that may get no decision.
func (d *Document) mayFail() float64 {
	if d.MaxErrors == nil { // of a version that did not have it
		return 0.01
	}
	return *d.MaxErrors
}

// undecided says how many requests of a run got no decision, if they are too many, or that no answer of an endpoint was
// one.
func (d *Document) undecided(run int) string {
	r := &d.Runs[run]
	if r.Denied == 0 && r.Allowed > 0 && len(r.Statuses) > 0 && !r.succeeded() {
		return "no answer was a success or a denial: " + statusesInWords(r)
	}
	n := r.Errors + r.Dropped
	if float64(n) <= d.mayFail()*float64(r.Planned()) {
		return ""
	}
	return fmt.Sprintf("%s of %s got no decision (%s), and at most %s%% may: %s failed%s, and %s were dropped",
		output.Thousands(n), output.Count(r.Planned(), "planned request"), output.Share(n, r.Planned()),
		strconv.FormatFloat(100*d.mayFail(), 'g', 6, 64), output.Thousands(r.Errors), r.timedOut(),
		output.Thousands(r.Dropped))
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

// timedOut says how many of the errors were time-outs, to be put after their number.
func (r *Run) timedOut() string {
	if r.TimedOut == 0 {
		return ""
	}
	return fmt.Sprintf(", of which %s timed out", output.Thousands(r.TimedOut))
}

// doubt is why too little of a run was seen. A simulation tries what a limit would have done, and is not wrong
// because that is nothing.
func (r *Run) doubt(kind Kind) string {
	limits := r.judged()
	switch {
	case kind == Simulation:
		return ""
	case r.Requests == 0:
		return "nothing was sent, so nothing is known"
	case len(limits) == 0:
		return "the audit proves nothing, because something else than the limit can explain what it finds; " +
			"see the warnings"
	case r.Denied > 0, slices.ContainsFunc(limits, func(l loadgen.Limit) bool { return l.Reached() >= 1 }):
		return "" // of an endpoint with several limits nobody knows which of them denied
	}
	return r.untested(kind)
}

// untested says which limit was reached least, and that it was never reached, so that its audit could not find what it
// admits too many; empty if all were reached. A simulation is right by construction.
func (r *Run) untested(kind Kind) string {
	limits := r.judged()
	if kind == Simulation || r.Requests == 0 || len(limits) == 0 {
		return ""
	}
	least := slices.MinFunc(limits, func(a, b loadgen.Limit) int { return cmp.Compare(a.Reached(), b.Reached()) })
	if least.Reached() >= 1 {
		return ""
	}
	name := ""
	if len(r.Limits) > 1 {
		name = least.Name + " was "
	}
	return name + neverAbove(&least) + ", so over-admission was not tested; ask for more, or let fewer keys ask"
}

// neverAbove says how much of the limit was in use at most. It rounds up a share that is below 1.
func neverAbove(l *loadgen.Limit) string {
	const rounding = 1e-9 // of a float
	percent := math.Max(0, math.Ceil(100*l.Reached()-rounding))
	return fmt.Sprintf("never above %.0f%% of the limit", math.Min(percent, 99))
}
