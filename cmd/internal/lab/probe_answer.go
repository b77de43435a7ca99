package lab

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/junit"
	"github.com/limitctl/limitctl/cmd/internal/markdown"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe"
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

// failed is how many checks failed.
func (a *probeAnswer) failed() int { return a.count(probe.Fail) }

func (a *probeAnswer) count(verdict probe.Verdict) (n int) {
	for i := range a.Checks {
		if a.Checks[i].Verdict == verdict {
			n++
		}
	}
	return n
}

// passed reports whether the probe ended without a failure. It needs a limit to pass.
func (a *probeAnswer) passed() bool { return a.failed() == 0 && a.Limit != nil && !a.unfinished }

// probeDocument is the JSON document of a probe.
type probeDocument struct {
	SchemaVersion int    `json:"schema_version"`
	Endpoint      string `json:"endpoint"`
	Passed        bool   `json:"passed"`
	// Limit is the limit that the probe found or was given, or null.
	Limit *string `json:"limit"`
	Given bool    `json:"given"`
	Exact bool    `json:"exact"`
	// PhaseMS is how much later windows begin than whole periods since the epoch.
	PhaseMS      *int64       `json:"phase_ms,omitempty"`
	Alternatives []string     `json:"alternatives,omitempty"`
	Dialect      string       `json:"dialect"`
	Dialects     []string     `json:"dialects"`
	Checks       []probeCheck `json:"checks"`
	Notes        []string     `json:"notes"`
	Requests     int          `json:"requests"`
	Denied       int          `json:"denied"`
	Began        time.Time    `json:"began"`
	TookMS       int64        `json:"took_ms"`
}

type probeCheck struct {
	Name     string   `json:"name"`
	Verdict  string   `json:"verdict"`
	Expected string   `json:"expected"`
	Seen     string   `json:"seen"`
	Details  []string `json:"details,omitempty"`
}

// Document implements [output.Answer].
func (a *probeAnswer) Document() any {
	d := &probeDocument{
		SchemaVersion: output.SchemaVersion, Endpoint: a.endpoint, Passed: a.passed(), Given: a.given, Exact: a.Exact && a.Limit != nil,
		Dialect: a.Dialect, Dialects: append([]string{}, a.Dialects...), Notes: append([]string{}, a.Notes...), Checks: []probeCheck{},
		Requests: len(a.Events), Denied: a.denied(), Began: output.UTC(a.began), TookMS: output.Milliseconds(a.took),
	}
	if a.Limit != nil {
		text := canonical(a.Limit)
		d.Limit = &text
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

// canonical is a limit in its full form.
func canonical(l *store.Limit) string {
	if normal, err := l.Normalize(); err == nil {
		return normal.String()
	}
	return l.String()
}

func (a *probeAnswer) denied() (n int) {
	for i := range a.Events {
		if a.Events[i].Outcome == endpoint.Denied {
			n++
		}
	}
	return n
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
	if n := a.failed(); n > 0 {
		parts = append(parts, checks(n, "failed"))
	}
	parts = append(parts, fmt.Sprintf("%d passed", a.count(probe.Pass)))
	if n := a.count(probe.Unknown); n > 0 {
		parts = append(parts, fmt.Sprintf("%d not seen", n))
	}
	rest = strings.Join(parts, ", ")
	switch {
	case a.unfinished:
		return "NOT FINISHED", rest
	case a.Limit == nil && a.denied() > 0:
		return "LIMIT NOT NAMED", rest
	case a.Limit == nil:
		return "NO LIMIT FOUND", rest
	case a.failed() > 0:
		return "FAIL", rest
	}
	return "PASS", rest
}

// facts are the facts about the endpoint, a name and a text each.
func (a *probeAnswer) facts() (facts [][2]string) {
	add := func(name, text string) { facts = append(facts, [2]string{name, text}) }
	add("endpoint", a.endpoint)
	switch {
	case a.Limit == nil && a.unfinished:
		add("limit", "not known when the probe ended")
	case a.Limit == nil && a.denied() > 0:
		add("limit", "there is one, and what is known of it stands below")
	case a.Limit == nil:
		add("limit", "none was found: no request was denied")
	case a.given:
		add("limit", canonical(a.Limit)+", as given")
	case a.Exact:
		add("limit", canonical(a.Limit)+", found")
	default:
		add("limit", canonical(a.Limit)+", or nearly so")
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
	add("requests", fmt.Sprintf("%d, of which %d were denied, in %s", len(a.Events), a.denied(), output.Duration(a.took)))
	return facts
}

// Print implements [output.Answer].
func (a *probeAnswer) Print(p *output.Printer) {
	word, rest := a.headline()
	style := output.Calm
	if word != "PASS" {
		style = output.AtEnd
	}
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
	word, rest := a.headline()
	mark := "❌"
	if word == "PASS" {
		mark = "✅"
	}
	fmt.Fprintf(&b, "### %s %s: limit of %s\n\n%s\n\n", mark, word, markdown.Code(a.endpoint), markdown.Text(rest))
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

// JUnit implements summarized: each check is a test case.
func (a *probeAnswer) JUnit() []byte {
	suite := junit.Suite{Name: "probe of " + a.endpoint, Began: a.began, Took: a.took}
	limit := junit.Case{Class: "limitctl.probe", Name: "limit"}
	for _, fact := range a.facts() {
		limit.Said += fact[0] + ": " + fact[1] + "\n"
	}
	if a.Limit == nil {
		limit.Failed = "no limit was found"
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
