package test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/junit"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/probe"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sentDocument is what the JSON documents of probe have in common.
type sentDocument struct {
	Endpoint string `json:"endpoint"`
	// Dialects are those of the headers, the newest first.
	Dialects []string `json:"dialects"`
	Notes    []string `json:"notes"`
	// Requests are all that were sent: Allowed, Denied, and Failed, which got no decision.
	Requests int `json:"requests"`
	Allowed  int `json:"allowed"`
	Denied   int `json:"denied"`
	Failed   int `json:"failed"`
	// AllowedUS and DeniedUS are how long half of these requests took at most, in microseconds; 0 if there were none.
	AllowedUS int64     `json:"allowed_us"`
	DeniedUS  int64     `json:"denied_us"` // see allowed_us
	Began     time.Time `json:"began"`
	TookMS    int64     `json:"took_ms"` // how long the probe took

	timedOut int
}

// sent sums up the requests of a probe.
func sent(where string, began, ended time.Time, events []probe.Event, dialects, notes []string) sentDocument {
	d := sentDocument{Endpoint: where, Dialects: append([]string{}, dialects...),
		Notes: append([]string{}, notes...), Requests: len(events), Began: output.UTC(began),
		TookMS: output.Milliseconds(ended.Sub(began))}
	took := map[endpoint.Outcome][]int64{}
	for i := range events {
		e := &events[i]
		took[e.Outcome] = append(took[e.Outcome], e.Answered.Sub(e.Sent).Microseconds())
		if sys.IsTimeout(e.Err) {
			d.timedOut++
		}
	}
	median := func(outcome endpoint.Outcome) (n int, us int64) {
		if n = len(took[outcome]); n > 0 {
			slices.Sort(took[outcome])
			us = took[outcome][n/2]
		}
		return n, us
	}
	d.Allowed, d.AllowedUS = median(endpoint.Allowed)
	d.Denied, d.DeniedUS = median(endpoint.Denied)
	d.Failed = len(took[endpoint.Failed])
	return d
}

// inWords says how many requests were sent, and what became of them.
func (d *sentDocument) inWords() string {
	text := fmt.Sprintf("%d in %s: %d allowed", d.Requests,
		output.Duration(time.Duration(d.TookMS)*time.Millisecond), d.Allowed)
	if d.Allowed > 0 {
		text += fmt.Sprintf(" (median %s)", output.Micros(d.AllowedUS))
	}
	if text += fmt.Sprintf(", %d denied", d.Denied); d.Denied > 0 {
		text += fmt.Sprintf(" (median %s)", output.Micros(d.DeniedUS))
	}
	if d.Failed > 0 {
		text += fmt.Sprintf(", %d failed", d.Failed)
	}
	if d.timedOut > 0 {
		text += fmt.Sprintf(" (%d of them timed out)", d.timedOut)
	}
	return text
}

// probeAnswer is the answer of probe with a limit, and its JSON document.
type probeAnswer struct {
	SchemaVersion int `json:"schema_version"`
	sentDocument
	// Verdict is pass, fail or inconclusive. Passed is true only for pass.
	Verdict report.Verdict `json:"verdict"`
	Passed  bool           `json:"passed"`
	Limit   string         `json:"limit"` // in its full form
	Checks  []probe.Check  `json:"checks"`

	doubt string // why the verdict is inconclusive
}

// newProbeAnswer judges the result of a probe. One that did not end cannot pass.
func newProbeAnswer(s sentDocument, limit store.Limit, r *probe.Result, unfinished bool) *probeAnswer {
	a := &probeAnswer{SchemaVersion: output.SchemaVersion, sentDocument: s, Verdict: report.Inconclusive,
		Limit: limit.String(), Checks: append([]probe.Check{}, r.Checks...)}
	verdict, doubt := r.Overall()
	switch {
	case verdict == probe.Fail:
		a.Verdict = report.Fail
	case unfinished:
		a.doubt = "the probe did not end"
	case verdict == probe.Pass:
		a.Verdict, a.Passed = report.Pass, true
	default:
		a.doubt = doubt
	}
	return a
}

// Items implements [output.Answer]: one for each check.
func (a *probeAnswer) Items() any { return a.Checks }

// Print implements [output.Answer].
func (a *probeAnswer) Print(p *output.Printer) {
	names := map[probe.Verdict][]string{}
	for _, c := range a.Checks {
		names[c.Verdict] = append(names[c.Verdict], c.Name)
	}
	parts := []string{fmt.Sprintf("%d passed", len(names[probe.Pass]))}
	if n := len(names[probe.Fail]); n > 0 {
		parts = slices.Insert(parts, 0, output.Count(n, "check")+" failed")
	} else if a.doubt != "" {
		parts = slices.Insert(parts, 0, a.doubt)
	}
	text := strings.Join(parts, ", ")
	if unseen := names[probe.Unknown]; len(unseen) > 0 {
		text += "; not seen: " + strings.Join(unseen, ", ")
	}
	style := map[report.Verdict]output.Style{report.Pass: output.Calm, report.Fail: output.AtEnd,
		report.Inconclusive: output.Near}[a.Verdict]
	fmt.Fprintln(p.Out, p.Paint(style, strings.ToUpper(string(a.Verdict)))+"  "+text)
	printFacts(p, [][2]string{{"endpoint", a.Endpoint}, {"limit", a.Limit},
		{"headers", cmp.Or(strings.Join(a.Dialects, ", "), "none tells of a limit")}, {"requests", a.inWords()}})
	fmt.Fprintln(p.Out)
	for _, verdict := range []probe.Verdict{probe.Fail, probe.Pass, probe.Unknown} {
		for _, c := range a.Checks {
			if c.Verdict == verdict {
				printCheck(p, &c)
			}
		}
	}
	printNotes(p, a.Notes)
}

// printFacts prints facts, a name and a text each.
func printFacts(p *output.Printer, facts [][2]string) {
	const label = 10
	for _, fact := range facts {
		p.Labelled(p.Paint(output.Faint, fmt.Sprintf("%-*s", label, fact[0])), label, fact[1])
	}
}

func printNotes(p *output.Printer, notes []string) {
	for _, note := range notes {
		p.Labelled(p.Paint(output.Near, "! "), 2, note)
	}
}

// printCheck prints what the check saw, and if it failed, what it expected.
func printCheck(p *output.Printer, c *probe.Check) {
	mark := map[probe.Verdict]string{probe.Pass: p.Paint(output.Calm, "✓"), probe.Fail: p.Paint(output.AtEnd, "✗"),
		probe.Unknown: p.Paint(output.Faint, "?")}[c.Verdict]
	const label = 17
	p.Labelled(fmt.Sprintf("%s %-*s", mark, label-2, c.Name), label, c.Seen)
	if c.Verdict == probe.Fail {
		p.Labelled(strings.Repeat(" ", label)+p.Paint(output.Faint, "expected: "), label+len("expected: "), c.Expected)
	}
}

// Summary returns the summary of a probe: each check is a test case.
func (a *probeAnswer) Summary() *report.Summary {
	suite := junit.Suite{Name: "probe of " + a.Endpoint, Began: a.Began,
		Took:  time.Duration(a.TookMS) * time.Millisecond,
		Cases: []junit.Case{{Name: "limit", Said: a.Limit + "\nrequests: " + a.inWords(), Skipped: a.doubt}}}
	for _, c := range a.Checks {
		one := junit.Case{Name: c.Name}
		switch c.Verdict {
		case probe.Fail:
			one.Failed = "expected: " + c.Expected + "\nseen: " + c.Seen
		case probe.Unknown:
			one.Skipped = c.Seen
		case probe.Pass:
			one.Said = c.Seen
		}
		suite.Cases = append(suite.Cases, one)
	}
	return &report.Summary{Verdict: a.Verdict, What: "limit of", Of: a.Endpoint, Answer: a,
		Suites: []junit.Suite{suite}}
}
