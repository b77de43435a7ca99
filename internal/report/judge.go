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
	if missing := d.unfinished(); missing != "" {
		j.doubts = []string{missing}
	}
	for i := range d.Runs {
		about := d.about(i)
		for _, c := range d.Runs[i].audits(d.Kind) {
			if c.verdict == Fail {
				for _, wrong := range c.words {
					j.wrong = append(j.wrong, about+wrong)
				}
			}
		}
		doubt, _ := d.Runs[i].unseen(d.Kind)
		if doubt = cmp.Or(d.undecided(i), doubt); doubt != "" {
			j.doubts = append(j.doubts, about+doubt)
		}
	}
	for _, c := range d.promised() {
		switch c.verdict {
		case Fail:
			j.missed = append(j.missed, d.about(c.run)+c.words[0])
		case Inconclusive:
			j.open = append(j.open, d.about(c.run)+c.words[0])
		default:
		}
	}
	return j
}

// unfinished says why a document is not about all that was to be tried, or is "".
func (d *Document) unfinished() string {
	switch {
	case len(d.Runs) == 0:
		return "no run is in it"
	case d.Interrupted:
		return "interrupted: these are the results up to then"
	}
	return ""
}

// check is one thing that was judged, and what is to be said of it, a sentence each.
type check struct {
	run     int // -1 for a suggestion, which is about none
	name    string
	verdict Verdict
	words   []string
	promise bool // somebody named it
}

// promised are the thresholds of all runs, and the suggestions.
func (d *Document) promised() (all []check) {
	add := func(run int, name string, verdict Verdict, format string, args ...any) {
		all = append(all, check{run, name, verdict, []string{fmt.Sprintf(format, args...)}, true})
	}
	for _, t := range d.Thresholds {
		switch {
		case t.NotJudged != "":
			add(t.Run, t.Expression, Inconclusive, "%s was not judged: it was %s, and %s", t.Expression, t.Actual,
				t.NotJudged)
		case !t.OK:
			add(t.Run, t.Expression, Fail, "%s was missed: %s", t.Expression, t.Actual)
		default:
			add(t.Run, t.Expression, Pass, "%s: %s", t.Expression, t.Actual)
		}
	}
	for _, s := range d.Suggestions {
		name, below := s.Promise+" of "+s.Limit, ""
		if s.Below != "" {
			below = ", and with one less " + s.Below
		}
		if s.Kept {
			add(-1, name, Pass, "%s needs %s: %s%s", s.Promise, s.Limit, s.Actual, below)
		} else {
			add(-1, name, Fail, "%s: no count keeps it; at %s it is %s", name, output.Thousands(s.Count), s.Actual)
		}
	}
	return all
}

// audits are what the audit of a run judged.
func (r *Run) audits(kind Kind) (all []check) {
	add := func(name, untested, said string, wrong ...string) {
		c := check{name: name, verdict: Pass, words: []string{said}}
		wrong = slices.DeleteFunc(wrong, func(text string) bool { return text == "" })
		if len(wrong) > 0 {
			c.verdict, c.words = Fail, wrong
		} else if untested != "" {
			c.verdict, c.words = Inconclusive, []string{untested}
		}
		all = append(all, c)
	}
	limits := r.enforced()
	doubt, _ := r.unseen(kind)
	for i := range limits {
		l := &limits[i]
		about, over, under, untested := "", "", "", doubt
		switch {
		case !r.served():
			untested = notServed
		case l.Doubtful:
			untested = "something else than the limit can explain what was found; see the warnings"
		case kind != Simulation && l.Reached() < 1:
			untested = neverAbove(l)
		case r.Endpoint != nil && l.Denied == 0:
			untested = "nothing was denied, or no denial was certainly of this limit"
		}
		if len(limits) > 1 {
			about = l.Name + ": "
		}
		wrong := func(format string, units, keys int64) string {
			text := about + fmt.Sprintf(format, output.Count(units, "unit"))
			if keys > 0 { // it is known
				text += " on " + output.Count(keys, "key")
			}
			return text
		}
		if l.OverAdmitted > 0 && untested != notServed && !l.Doubtful {
			over = wrong("admitted %s too many", l.OverAdmitted, l.KeysOver)
		}
		if l.UnderAdmitted > 0 && !l.UnderExplained && !l.Doubtful {
			under = wrong("denied %s that fitted", l.UnderAdmitted, l.KeysUnder)
		}
		add(about+"no over-admission", untested, "", over)
		add(about+"no under-admission", untested, "", under)
		if l.Lies != nil {
			add(about+"true answers", untested, output.Count(l.Lies.Checked, "answer")+" were held against the truth",
				untrue(about, &l.Audit)...)
		}
	}
	if r.Endpoint != nil {
		add("readable headers", "", "", r.Endpoint.WrongHeaders...)
	}
	if wrong := &r.Impossible; wrong.Count > 0 {
		add("possible answers", "", "", fmt.Sprintf("%s that no store gives; the first: %s",
			output.Count(wrong.Count, "answer"), wrong.Text))
	}
	if r.Clock != nil {
		add("steady clock", "", "", clockWrong(r.Clock))
	}
	return all
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

// Failed reports whether the exit code says no: a promise was missed, too many requests got no decision, not all was
// tried or, unless lenient, an answer was wrong or a promise not judged; if strict, whatever else makes the verdict
// inconclusive.
func (d *Document) Failed(lenient, strict bool) bool {
	j, unknown := d.judge(), d.unfinished()
	for i := range d.Runs {
		unknown = cmp.Or(unknown, d.undecided(i))
	}
	return unknown != "" || len(j.missed) > 0 || !lenient && len(j.wrong)+len(j.open) > 0 ||
		strict && len(j.doubts)+len(j.open) > 0
}

// about is the title of a run and a colon, where there are several to tell apart.
func (d *Document) about(run int) string {
	if len(d.Runs) < 2 || run < 0 {
		return ""
	}
	return d.Runs[run].Title() + ": "
}

// enforced is the limits of a run but shadows, which decide nothing.
func (r *Run) enforced() []loadgen.Limit {
	if len(r.Limits) == 0 { // an old or a foreign document
		return []loadgen.Limit{{Audit: r.Audit, Denied: r.Denied}}
	}
	return slices.DeleteFunc(slices.Clone(r.Limits), func(l loadgen.Limit) bool { return l.Shadow })
}

// judged is those limits whose audits say whether a run was right: one that is doubtful proves nothing.
func (r *Run) judged() []loadgen.Limit {
	return slices.DeleteFunc(r.enforced(), func(l loadgen.Limit) bool { return l.Doubtful })
}

// untrue describes each field that answers reported wrong, with its first evidence.
func untrue(about string, a *loadgen.Audit) (all []string) {
	if a.Doubtful {
		return nil
	}
	for _, l := range a.Lies.Fields {
		text := fmt.Sprintf("%s%s was told as %s and is %s", about, strings.ReplaceAll(l.Field, "_", "-"), l.Reported,
			l.True)
		if !l.At.IsZero() {
			text += ", at " + l.At.UTC().Format("15:04:05.000000")
		}
		if l.Key != "" {
			text += " of " + l.Key
		}
		all = append(all, fmt.Sprintf("%s; wrong in %s", text, output.Count(l.Answers, "answer")))
	}
	return all
}

// clockWrong is what is wrong with the store's clock, if anything.
func clockWrong(c *loadgen.ClockFinding) string {
	if c.Astray == 0 {
		return ""
	}
	return fmt.Sprintf("the store's clock was %s × wrong by up to %s", output.Thousands(c.Astray),
		output.Duration(fromMS(math.Ceil(math.Abs(c.FarthestMS)))))
}

// Title names the run among those of its document: "token-bucket 100/1m".
func (r *Run) Title() string {
	title := strings.TrimSpace(r.Algorithm + " " + strings.TrimPrefix(r.Limit, r.Algorithm+":"))
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
	if !r.served() {
		return notServed + ": " + statusesInWords(r)
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

// notServed says that an endpoint's limit was not met, so that its audit proves nothing.
const notServed = "no answer was a success or a denial"

// served reports whether an answer was a denial, or had a status of success, or of gRPC, whose errors are counted as
// such, or is not known.
func (r *Run) served() bool {
	if r.Denied > 0 || r.Allowed == 0 || len(r.Statuses) == 0 {
		return true
	}
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

// unseen says why too little of a run was seen for a verdict, or else, as a note, which limit was never reached, so
// that its audit could not find what it admits too many. A simulation tries what a limit would have done, and is not
// wrong because that is nothing.
func (r *Run) unseen(kind Kind) (doubt, note string) {
	limits := r.judged()
	switch {
	case kind == Simulation:
		return "", ""
	case r.Requests == 0:
		return "nothing was sent, so nothing is known", ""
	case len(limits) == 0:
		return "the audit proves nothing, because something else than the limit can explain what it finds; " +
			"see the warnings", ""
	}
	byReached := func(a, b loadgen.Limit) int { return cmp.Compare(a.Reached(), b.Reached()) }
	least, most := slices.MinFunc(limits, byReached), slices.MaxFunc(limits, byReached)
	if least.Reached() >= 1 {
		return "", ""
	}
	if len(r.Limits) > 1 {
		note = least.Name + " was "
	}
	note += neverAbove(&least) + ", so over-admission was not tested; ask for more, or let fewer keys ask"
	if r.Denied > 0 || most.Reached() >= 1 { // of an endpoint with several limits nobody knows which of them denied
		return "", note
	}
	return note, ""
}

// neverAbove says how much of the limit was in use at most. It rounds up a share that is below 1.
func neverAbove(l *loadgen.Limit) string {
	const rounding = 1e-9 // of a float
	return fmt.Sprintf("never above %.0f%% of the limit", min(max(0, math.Ceil(100*l.Reached()-rounding)), 99))
}
