package cmd

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/junit"
	"github.com/limitctl/limitctl/cmd/internal/markdown"
	"github.com/limitctl/limitctl/cmd/internal/probe"
)

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
