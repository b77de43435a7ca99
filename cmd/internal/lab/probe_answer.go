package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/junit"
	"github.com/limitctl/limitctl/cmd/internal/markdown"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/show"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// probeAnswer is the answer of probe.
type probeAnswer struct {
	*probe.Result
	endpoint   string
	given      bool // the command line gives the limit
	unfinished bool // an error ended the probe
	began      time.Time
	took       time.Duration
}

func (a *probeAnswer) count(verdict probe.Verdict) (n int) {
	for i := range a.Checks {
		if a.Checks[i].Verdict == verdict {
			n++
		}
	}
	return n
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
	case a.Unanswered() != nil:
		return "no request was answered"
	case len(a.Missing) == 1 && a.Enforced():
		return a.Missing[0] + " was required and not seen"
	case len(a.Missing) > 1 && a.Enforced():
		return strings.Join(a.Missing, ", ") + " were required and not seen"
	case a.Limit != nil:
		return "the limit was not seen to be enforced"
	case a.counted(endpoint.Denied) > 0:
		return "there is a limit, and it was not named"
	}
	return "no limit was found"
}

// probeDocument is the JSON document of a probe.
type probeDocument struct {
	SchemaVersion int    `json:"schema_version"`
	Endpoint      string `json:"endpoint"`
	// Verdict is pass, fail or inconclusive. Passed is true only for pass.
	Verdict report.Verdict `json:"verdict"`
	Passed  bool           `json:"passed"`
	// Limit is the limit that the probe found or was given, or null.
	Limit *string `json:"limit"`
	// Limits are all limits that are decided together, if there are several. Limit is the first of them.
	Limits []string `json:"limits,omitempty"`
	Given  bool     `json:"given"`
	Exact  bool     `json:"exact"`
	// PhaseMS is how much later windows begin than whole periods since the epoch.
	PhaseMS      *int64       `json:"phase_ms,omitempty"`
	Alternatives []string     `json:"alternatives,omitempty"` // other limits that explain all answers
	Dialect      string       `json:"dialect"`
	Dialects     []string     `json:"dialects"`
	Checks       []probeCheck `json:"checks"`
	// Missing are the required checks that were not seen.
	Missing []string `json:"missing,omitempty"`
	Notes   []string `json:"notes"`
	// Requests are all that were sent: Allowed, Denied, and Failed, which got no decision.
	Requests int       `json:"requests"`
	Allowed  int       `json:"allowed"`
	Denied   int       `json:"denied"`
	Failed   int       `json:"failed"`
	Began    time.Time `json:"began"`
	TookMS   int64     `json:"took_ms"` // how long the probe took
}

type probeCheck struct {
	Name     string   `json:"name"`
	Verdict  string   `json:"verdict"`
	Expected string   `json:"expected"`
	Seen     string   `json:"seen"`
	Details  []string `json:"details,omitempty"` // more lines about what was seen
}

// Document implements [output.Answer].
func (a *probeAnswer) Document() any {
	d := &probeDocument{
		SchemaVersion: output.SchemaVersion, Endpoint: a.endpoint, Verdict: a.verdict(), Given: a.given, Exact: a.Exact && a.Limit != nil,
		Dialect: a.Dialect, Dialects: append([]string{}, a.Dialects...), Notes: append([]string{}, a.Notes...), Checks: []probeCheck{},
		Missing:  a.Missing,
		Requests: len(a.Events), Allowed: a.counted(endpoint.Allowed), Denied: a.counted(endpoint.Denied),
		Failed: a.counted(endpoint.Failed), Began: output.UTC(a.began), TookMS: output.Milliseconds(a.took),
	}
	d.Passed = d.Verdict == report.Pass
	if a.Limit != nil {
		text := canonical(a.Limit)
		d.Limit = &text
		if len(a.Beside) > 0 {
			d.Limits = a.limits()
		}
	}
	if a.PhaseKnown {
		ms := a.Phase.Milliseconds()
		d.PhaseMS = &ms
	}
	for i := range a.Alternatives {
		d.Alternatives = append(d.Alternatives, canonical(&a.Alternatives[i]))
	}
	for _, c := range a.Checks {
		d.Checks = append(d.Checks, probeCheck{c.Name, string(c.Verdict), c.Expected, c.Seen, c.Details})
	}
	return d
}

// limits are the limits of the endpoint in their full form.
func (a *probeAnswer) limits() []string {
	all := []string{canonical(a.Limit)}
	for i := range a.Beside {
		all = append(all, canonical(&a.Beside[i]))
	}
	return all
}

// canonical is a limit in its full form.
func canonical(l *store.Limit) string {
	if normal, err := l.Normalize(); err == nil {
		return normal.String()
	}
	return l.String()
}

// counted is how many requests had an outcome.
func (a *probeAnswer) counted(outcome endpoint.Outcome) (n int) {
	for i := range a.Events {
		if a.Events[i].Outcome == outcome {
			n++
		}
	}
	return n
}

// requests says how many requests were sent, and what became of them.
func (a *probeAnswer) requests() string {
	text := fmt.Sprintf("%d in %s: %d allowed, %d denied", len(a.Events), output.Duration(a.took), a.counted(endpoint.Allowed),
		a.counted(endpoint.Denied))
	failed, timedOut := a.counted(endpoint.Failed), 0
	for i := range a.Events {
		if errors.Is(a.Events[i].Err, context.DeadlineExceeded) {
			timedOut++
		}
	}
	if failed > 0 {
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
		lines = append(lines, probeCheck{c.Name, string(c.Verdict), c.Expected, c.Seen, c.Details})
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
	if n := a.count(probe.Unknown); n > 0 {
		parts = append(parts, fmt.Sprintf("%d not seen", n))
	}
	return strings.ToUpper(string(verdict)), strings.Join(parts, ", ")
}

// facts are the facts about the endpoint, a name and a text each.
func (a *probeAnswer) facts() (facts [][2]string) {
	add := func(name, text string) { facts = append(facts, [2]string{name, text}) }
	add("endpoint", a.endpoint)
	switch {
	case a.Limit == nil && a.unfinished:
		add("limit", "not known when the probe ended")
	case a.Limit == nil && a.counted(endpoint.Denied) > 0:
		add("limit", "there is one, and what is known of it stands below")
	case a.Limit == nil:
		add("limit", "none was found: no request was denied")
	case a.given:
		add("limit", strings.Join(a.limits(), " and ")+", as given")
	case a.Exact:
		add("limit", strings.Join(a.limits(), " and ")+", found")
	default:
		add("limit", strings.Join(a.limits(), " and ")+", or nearly so")
	}
	if a.PhaseKnown && a.Phase.Milliseconds() > 0 && a.Limit != nil && a.Limit.Algorithm == store.FixedWindow && !a.Limit.FromFirst {
		add("windows", "begin "+output.Duration(a.Phase)+" after whole periods since 1970")
	}
	for i := range a.Alternatives {
		add("or", canonical(&a.Alternatives[i])+" would have answered alike")
	}
	dialects := "none tells of a limit"
	if len(a.Dialects) > 0 {
		dialects = strings.Join(a.Dialects, ", ")
	}
	add("headers", dialects)
	add("requests", a.requests())
	return facts
}

// Print implements [output.Answer].
func (a *probeAnswer) Print(p *output.Printer) {
	word, rest := a.headline()
	style := map[report.Verdict]output.Style{report.Pass: output.Calm, report.Fail: output.AtEnd,
		report.Inconclusive: output.Near}[a.verdict()]
	fmt.Fprintln(p.Out, p.Paint(style, word)+"  "+p.Paint(output.Plain, rest))
	const label = 10
	for _, fact := range a.facts() {
		p.Labelled(p.Paint(output.Faint, fmt.Sprintf("%-*s", label, fact[0])), label, fact[1])
	}
	fmt.Fprintln(p.Out)
	for _, c := range a.failedFirst() {
		printCheck(p, c)
	}
	for _, note := range a.Notes {
		p.Labelled(p.Paint(output.Near, "! "), 2, note)
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
	seen := []string{c.Seen}
	if len(c.Details) > 1 {
		seen = c.Details
	}
	first := p.Paint(style, mark) + " " + fmt.Sprintf("%-*s", label-2, c.Name)
	for _, text := range seen {
		p.Labelled(first, label, text)
		first = strings.Repeat(" ", label)
	}
	if c.Verdict == probe.Fail {
		p.Labelled(strings.Repeat(" ", label)+p.Paint(output.Faint, "expected: "), label+len("expected: "), c.Expected)
	}
}

// probePlan is the answer of a dry run.
type probePlan struct {
	config   *probe.Config
	endpoint string
}

// Document implements [output.Answer].
func (a *probePlan) Document() any {
	return struct {
		SchemaVersion int      `json:"schema_version"`
		Endpoint      string   `json:"endpoint"`
		MostRequests  int      `json:"most_requests"`
		MostTimeMS    int64    `json:"most_time_ms"`
		Steps         []string `json:"steps"`
	}{output.SchemaVersion, a.endpoint, a.config.Quota, output.Milliseconds(a.config.MaxTime), probe.Plan(a.config)}
}

// Records implements [output.Answer].
func (a *probePlan) Records() [][]string {
	records := [][]string{{"number", "step"}}
	for i, step := range probe.Plan(a.config) {
		records = append(records, []string{strconv.Itoa(i), step})
	}
	return records
}

// Print implements [output.Answer].
func (a *probePlan) Print(p *output.Printer) {
	for i, step := range probe.Plan(a.config) {
		if i == 0 {
			p.Labelled("", 0, a.endpoint+": "+step)
			continue
		}
		p.Labelled(fmt.Sprintf("  %d. ", i), 5, step)
	}
}

// Markdown implements summarized: a table for a pull request.
func (a *probeAnswer) Markdown() []byte {
	var b strings.Builder
	_, rest := a.headline()
	show.Heading(&b, a.verdict(), "limit of "+markdown.Code(a.endpoint))
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
