package cmd

import (
	"cmp"
	"slices"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// summaryAnswer is what inspect --summary says of the keys of each limit.
type summaryAnswer struct {
	groups  []*summaryGroup
	byName  map[[2]string]*summaryGroup
	overall summaryGroup
	most    int // lines of groups that there is room for, 0 being any number
}

// summaryGroup counts the keys of one limit. A key of no policy's is counted under
// its name alone.
type summaryGroup struct {
	Policy  string `json:"policy"`
	Limit   string `json:"limit"`
	Keys    int64  `json:"keys"`
	AtLimit int64  `json:"at_limit"`
	Bytes   int64  `json:"bytes"`
	// Unknown are the keys that may or may not be at their limit: nothing tells which.
	Unknown int64 `json:"unknown,omitempty"`
}

// atLimitText is how many keys are at their limit, and notKnown if that can be told of
// none of them.
func (g *summaryGroup) atLimitText() string {
	if g.Unknown > 0 && g.Unknown == g.Keys {
		return notKnown
	}
	return number(g.AtLimit)
}

// newSummaryAnswer returns a summary of at most that many lines, including the line of
// all keys.
func newSummaryAnswer(most int) *summaryAnswer {
	return &summaryAnswer{groups: []*summaryGroup{}, byName: map[[2]string]*summaryGroup{}, most: max(0, most-1)}
}

func (a *summaryAnswer) add(e *limiter.Entry) {
	name := [2]string{"", e.Key.Name}
	if parts, ok := policy.ParseKey(e.Key); ok {
		name = [2]string{parts.Policy, parts.Limit}
	}
	group := a.byName[name]
	if group == nil {
		group = &summaryGroup{Policy: name[0], Limit: name[1]}
		a.byName[name] = group
		a.groups = append(a.groups, group)
	}
	for _, g := range []*summaryGroup{group, &a.overall} {
		g.Keys++
		g.Bytes += e.Bytes
		if e.AtLimit() {
			g.AtLimit++
		}
		if !e.RemainingKnown() {
			g.Unknown++
		}
	}
}

// finish orders the groups, those with the most keys first.
func (a *summaryAnswer) finish() {
	slices.SortFunc(a.groups, func(x, y *summaryGroup) int {
		return cmp.Or(cmp.Compare(y.Keys, x.Keys), cmp.Compare(x.Policy, y.Policy), cmp.Compare(x.Limit, y.Limit))
	})
}

func (a *summaryAnswer) rows() int { return len(a.groups) }

// shown are the groups that there is room for.
func (a *summaryAnswer) shown() []*summaryGroup {
	if a.most > 0 && a.most < len(a.groups) {
		return a.groups[:a.most]
	}
	return a.groups
}

// Document implements output.Answer.
func (a *summaryAnswer) Document() any {
	return struct {
		SchemaVersion int             `json:"schema_version"`
		Groups        []*summaryGroup `json:"groups"`
		Keys          int64           `json:"keys"`
		AtLimit       int64           `json:"at_limit"`
		Bytes         int64           `json:"bytes"`
		Unknown       int64           `json:"unknown,omitempty"`
	}{output.SchemaVersion, a.groups, a.overall.Keys, a.overall.AtLimit, a.overall.Bytes, a.overall.Unknown}
}

// Lines implements output.Answer.
func (a *summaryAnswer) Lines() []any {
	lines := make([]any, len(a.groups))
	for i, group := range a.groups {
		lines[i] = group
	}
	return lines
}

// Records implements output.Answer.
func (a *summaryAnswer) Records() [][]string {
	records := [][]string{{"policy", "limit", "keys", "at_limit", "bytes"}}
	for _, g := range a.groups {
		atLimit := ""
		if text := g.atLimitText(); text != notKnown {
			atLimit = text
		}
		records = append(records, []string{g.Policy, g.Limit, number(g.Keys), atLimit, number(g.Bytes)})
	}
	return records
}

// Print implements output.Answer.
func (a *summaryAnswer) Print(p *output.Printer) {
	if len(a.groups) == 0 {
		return
	}
	columns := []output.Column{{Header: "POLICY", Shrinks: 6}, {Header: "LIMIT", Shrinks: 8}, {Header: "KEYS", Right: true},
		{Header: "AT LIMIT", Right: true}, {Header: "BYTES", Right: true, Drops: 1}}
	var rows [][]output.Cell
	for _, g := range append(slices.Clone(a.shown()), &a.overall) {
		style := output.Plain
		if g.AtLimit > 0 {
			style = output.AtEnd
		}
		row := []output.Cell{{Text: cmp.Or(g.Policy, "-")}, {Text: g.Limit}, {Text: number(g.Keys)},
			{Text: g.atLimitText(), Style: style}, {Text: output.Bytes(g.Bytes)}}
		if g == &a.overall {
			row[0].Text, row[1].Text = "all", ""
		}
		rows = append(rows, row)
	}
	p.Table(columns, rows)
}
