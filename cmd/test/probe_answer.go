package test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/junit"
	"github.com/limitctl/limitctl/internal/markdown"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/probe"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// probeAnswer is the answer of probe with a limit.
type probeAnswer struct {
	*probe.Result
	limit      store.Limit // normalized
	endpoint   string
	unfinished bool // an error ended the probe
	began      time.Time
	took       time.Duration
}

func (a *probeAnswer) count(verdict probe.Verdict) int { return len(a.names(verdict)) }

// names returns the checks with a verdict.
func (a *probeAnswer) names(verdict probe.Verdict) (names []string) {
	for i := range a.Checks {
		if a.Checks[i].Verdict == verdict {
			names = append(names, a.Checks[i].Name)
		}
	}
	return names
}

// verdict is the verdict on the endpoint. A probe that did not end cannot pass.
func (a *probeAnswer) verdict() report.Verdict {
	switch overall := a.Overall(); {
	case overall == probe.Fail:
		return report.Fail
	case overall == probe.Pass && !a.unfinished:
		return report.Pass
	}
	return report.Inconclusive
}

// doubt is why the verdict is inconclusive.
func (a *probeAnswer) doubt() string {
	switch {
	case a.unfinished:
		return "the probe did not end"
	case probe.Unanswered(a.Events) != nil:
		return "no request was answered"
	case len(a.Missing) == 1 && a.Enforced():
		return a.Missing[0] + " was required and not seen"
	case len(a.Missing) > 1 && a.Enforced():
		return strings.Join(a.Missing, ", ") + " were required and not seen"
	}
	if a.Enforced() {
		return "nothing was seen of the period"
	}
	return "the limit was not seen to be enforced"
}

// probeDocument is the JSON document of a probe.
type probeDocument struct {
	SchemaVersion int    `json:"schema_version"`
	Endpoint      string `json:"endpoint"`
	// Verdict is pass, fail or inconclusive. Passed is true only for pass.
	Verdict report.Verdict `json:"verdict"`
	Passed  bool           `json:"passed"`
	Limit   string         `json:"limit"` // in its full form
	// Dialects are those of the headers, the newest first.
	Dialects []string      `json:"dialects"`
	Checks   []probe.Check `json:"checks"`
	// Missing are the required checks that were not seen.
	Missing []string `json:"missing,omitempty"`
	Notes   []string `json:"notes"`
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
}

// Document implements [output.Answer].
func (a *probeAnswer) Document() any {
	d := &probeDocument{
		SchemaVersion: output.SchemaVersion, Endpoint: a.endpoint, Verdict: a.verdict(), Limit: a.limit.String(),
		Dialects: append([]string{}, a.Dialects...), Notes: append([]string{}, a.Notes...), Checks: append([]probe.Check{}, a.Checks...), Missing: a.Missing,
		Requests: len(a.Events), Allowed: counted(a.Events, endpoint.Allowed), Denied: counted(a.Events, endpoint.Denied),
		Failed: counted(a.Events, endpoint.Failed), AllowedUS: median(a.Events, endpoint.Allowed).Microseconds(),
		DeniedUS: median(a.Events, endpoint.Denied).Microseconds(), Began: output.UTC(a.began), TookMS: output.Milliseconds(a.took),
	}
	d.Passed = d.Verdict == report.Pass
	return d
}

// counted is how many requests had an outcome.
func counted(events []probe.Event, outcome endpoint.Outcome) (n int) {
	for i := range events {
		if events[i].Outcome == outcome {
			n++
		}
	}
	return n
}

// median is how long half of the requests with an outcome took at most; 0 if there is none.
func median(events []probe.Event, outcome endpoint.Outcome) time.Duration {
	var took []time.Duration
	for i := range events {
		if events[i].Outcome == outcome {
			took = append(took, events[i].Answered.Sub(events[i].Sent))
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// sentInWords says how many requests were sent, and what became of them.
func sentInWords(events []probe.Event, took time.Duration) string {
	outcome := func(n int, word string, half time.Duration) string {
		if n == 0 {
			return "0 " + word
		}
		return fmt.Sprintf("%d %s (median %s)", n, word, output.Duration(half))
	}
	text := fmt.Sprintf("%d in %s: ", len(events), output.Duration(took)) +
		outcome(counted(events, endpoint.Allowed), "allowed", median(events, endpoint.Allowed)) + ", " +
		outcome(counted(events, endpoint.Denied), "denied", median(events, endpoint.Denied))
	timedOut := 0
	for i := range events {
		if errors.Is(events[i].Err, context.DeadlineExceeded) {
			timedOut++
		}
	}
	if failed := counted(events, endpoint.Failed); failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	if timedOut > 0 {
		text += fmt.Sprintf(" (%d of them timed out)", timedOut)
	}
	return text
}

// Lines implements [output.Answer]: one for each check.
func (a *probeAnswer) Lines() (lines []any) {
	for _, c := range a.Checks {
		lines = append(lines, c)
	}
	return lines
}

// Records implements [output.Answer].
func (a *probeAnswer) Records() [][]string {
	records := [][]string{{"name", "verdict", "expected", "seen"}}
	for _, c := range a.Checks {
		records = append(records, []string{c.Name, string(c.Verdict), c.Expected, c.Seen})
	}
	return records
}

// headline is the outcome of the probe, the verdict first.
func (a *probeAnswer) headline() (word, rest string) {
	checks := func(n int, what string) string { return fmt.Sprintf("%s %s", output.Plural(n, "check"), what) }
	var parts []string
	verdict := a.verdict()
	if verdict == report.Inconclusive {
		parts = append(parts, a.doubt())
	}
	if n := a.count(probe.Fail); n > 0 {
		parts = append(parts, checks(n, "failed"))
	}
	parts = append(parts, fmt.Sprintf("%d passed", a.count(probe.Pass)))
	text := strings.Join(parts, ", ")
	if unseen := a.names(probe.Unknown); len(unseen) > 0 {
		text += "; not seen: " + strings.Join(unseen, ", ")
	}
	return strings.ToUpper(string(verdict)), text
}

// facts are the facts about the endpoint, a name and a text each.
func (a *probeAnswer) facts() [][2]string {
	dialects := "none tells of a limit"
	if len(a.Dialects) > 0 {
		dialects = strings.Join(a.Dialects, ", ")
	}
	return [][2]string{{"endpoint", a.endpoint}, {"limit", a.limit.String()}, {"headers", dialects},
		{"requests", sentInWords(a.Events, a.took)}}
}

// Print implements [output.Answer].
func (a *probeAnswer) Print(p *output.Printer) {
	word, rest := a.headline()
	style := map[report.Verdict]output.Style{report.Pass: output.Calm, report.Fail: output.AtEnd,
		report.Inconclusive: output.Near}[a.verdict()]
	fmt.Fprintln(p.Out, p.Paint(style, word)+"  "+p.Paint(output.Plain, rest))
	printFacts(p, a.facts())
	fmt.Fprintln(p.Out)
	for _, c := range a.failedFirst() {
		printCheck(p, c)
	}
	for _, note := range a.Notes {
		p.Labelled(p.Paint(output.Near, "! "), 2, note)
	}
}

// printFacts prints facts, a name and a text each.
func printFacts(p *output.Printer, facts [][2]string) {
	const label = 10
	for _, fact := range facts {
		p.Labelled(p.Paint(output.Faint, fmt.Sprintf("%-*s", label, fact[0])), label, fact[1])
	}
}

// failedFirst are the checks in the order for people.
func (a *probeAnswer) failedFirst() (checks []*probe.Check) {
	for _, verdict := range []probe.Verdict{probe.Fail, probe.Pass, probe.Unknown} {
		for i := range a.Checks {
			if a.Checks[i].Verdict == verdict {
				checks = append(checks, &a.Checks[i])
			}
		}
	}
	return checks
}

// printCheck prints what the check saw, and if it failed, what it expected.
func printCheck(p *output.Printer, c *probe.Check) {
	mark, style := "✓", output.Calm
	switch c.Verdict {
	case probe.Fail:
		mark, style = "✗", output.AtEnd
	case probe.Unknown:
		mark, style = "?", output.Faint
	case probe.Pass:
	}
	const label = 17
	p.Labelled(p.Paint(style, mark)+" "+fmt.Sprintf("%-*s", label-2, c.Name), label, c.Seen)
	if c.Verdict == probe.Fail {
		p.Labelled(strings.Repeat(" ", label)+p.Paint(output.Faint, "expected: "), label+len("expected: "), c.Expected)
	}
}

// Markdown implements summarized: a table for a pull request.
func (a *probeAnswer) Markdown() []byte {
	var b strings.Builder
	_, rest := a.headline()
	report.Heading(&b, a.verdict(), "limit of "+markdown.Code(a.endpoint))
	fmt.Fprintf(&b, "%s\n\n", markdown.Text(rest))
	for _, fact := range a.facts()[1:] {
		fmt.Fprintf(&b, "- %s: %s\n", fact[0], markdown.Text(fact[1]))
	}
	b.WriteString("\n")
	var rows [][]string
	for _, c := range a.failedFirst() {
		mark := map[probe.Verdict]string{probe.Pass: "✅ pass", probe.Fail: "❌ fail", probe.Unknown: "➖ not seen"}[c.Verdict]
		rows = append(rows, []string{mark, markdown.Text(c.Name), markdown.Text(c.Expected), markdown.Text(c.Seen)})
	}
	markdown.Table(&b, []string{"verdict", "check", "expected", "seen"}, make([]bool, 4), rows)
	for _, note := range a.Notes {
		fmt.Fprintf(&b, "> %s\n", markdown.Text(note))
	}
	return []byte(b.String())
}

// Ruling implements summarized.
func (a *probeAnswer) Ruling() (verdict report.Verdict, what string, reasons []string) {
	if verdict = a.verdict(); verdict == report.Inconclusive {
		reasons = append(reasons, a.doubt())
	}
	for _, c := range a.Checks {
		if c.Verdict == probe.Fail {
			reasons = append(reasons, fmt.Sprintf("%s: expected %s; seen: %s", c.Name, c.Expected, c.Seen))
		}
	}
	return verdict, "limit of " + a.endpoint, reasons
}

// JUnit implements summarized: each check is a test case.
func (a *probeAnswer) JUnit() []byte {
	suite := junit.Suite{Name: "probe of " + a.endpoint, Began: a.began, Took: a.took}
	limit := junit.Case{Class: "limitctl.probe", Name: "limit"}
	for _, fact := range a.facts() {
		limit.Said += fact[0] + ": " + fact[1] + "\n"
	}
	if a.verdict() == report.Inconclusive {
		limit.Skipped = a.doubt()
	}
	suite.Cases = append(suite.Cases, limit)
	for _, c := range a.Checks {
		one := junit.Case{Class: "limitctl.probe", Name: c.Name}
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
	return junit.XML(suite)
}
