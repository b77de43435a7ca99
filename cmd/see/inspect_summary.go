package see

import (
	"cmp"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// summaryAnswer is the answer of inspect --summary: the keys of each limit, or with --by of each value of an attribute.
type summaryAnswer struct {
	SchemaVersion int             `json:"schema_version"`
	Groups        []*summaryGroup `json:"groups"`
	sums
	by      string
	most    int // groups to print; 0 for all
	byValue map[string]*summaryGroup
	none    *summaryGroup // without the attribute
}

// summaryGroup is the keys with one value of an attribute, or of one limit; the value is null for those that do not
// have the attribute.
type summaryGroup struct {
	By    string  `json:"by"`
	Value *string `json:"value"`
	sums
}

// sums are of keys. At their limit are those of which that is known.
type sums struct {
	Keys    int64 `json:"keys"`
	AtLimit int64 `json:"at_limit"`
	Bytes   int64 `json:"bytes"`
}

func (a *summaryAnswer) add(row *inspectRow) error {
	e := &row.entry
	value, has := e.Key.Name, true
	if a.by != ofLimits {
		value, has = operation.AttributeOf(e.Key, a.by)
	} else if parts, ok := policy.ParseKey(e.Key); ok && e.Layout == "" {
		value = parts.LimitName()
	}
	group := a.none
	if has {
		group = a.byValue[value]
	}
	if group == nil {
		group = &summaryGroup{By: a.by}
		a.Groups = append(a.Groups, group)
		if has {
			value = strings.Clone(value) // so that the key is not kept in memory
			group.Value, a.byValue[value] = &value, group
		} else {
			a.none = group
		}
	}
	for _, s := range []*sums{&group.sums, &a.sums} {
		s.Keys++
		s.Bytes += e.Bytes
		if e.AtLimit() {
			s.AtLimit++
		}
	}
	return nil
}

// finish orders the groups: those with the most keys at their limit first, then those with the most keys.
func (a *summaryAnswer) finish() {
	slices.SortFunc(a.Groups, func(x, y *summaryGroup) int {
		return cmp.Or(cmp.Compare(y.AtLimit, x.AtLimit), cmp.Compare(y.Keys, x.Keys), cmp.Compare(x.text(), y.text()))
	})
}

func (g *summaryGroup) text() string {
	if g.Value == nil {
		return "(none)"
	}
	return *g.Value
}

// Items implements output.Answer.
func (a *summaryAnswer) Items() any { return a.Groups }

// Print implements output.Answer.
func (a *summaryAnswer) Print(p *output.Printer) {
	if len(a.Groups) == 0 {
		return
	}
	columns := []output.Column{{Header: strings.ToUpper(a.by), Shrinks: 8, Names: true}, {Header: "KEYS", Right: true},
		{Header: "AT LIMIT", Right: true}, {Header: "BYTES", Right: true, Drops: 1}}
	shown := len(a.Groups)
	if a.most > 0 {
		shown = min(a.most, shown)
	}
	var rows [][]output.Cell
	add := func(name string, s *sums) {
		style := output.Plain
		if s.AtLimit > 0 {
			style = output.AtEnd
		}
		rows = append(rows,
			[]output.Cell{{Text: name}, {Text: cli.Number(s.Keys)}, {Text: cli.Number(s.AtLimit), Style: style},
				{Text: output.Bytes(s.Bytes)}})
	}
	for _, g := range a.Groups[:shown] {
		add(g.text(), &g.sums)
	}
	add("all", &a.sums)
	p.Table(columns, rows)
	if more := len(a.Groups) - shown; more > 0 {
		p.Line("and %s more; -o jsonl has all", output.Thousands(int64(more)))
	}
}
