package see

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// summaryAnswer is the answer of inspect --summary: the keys of each limit, or with --by of each value of an attribute.
type summaryAnswer struct {
	by      string
	facts   *keyFacts
	groups  []*summaryGroup
	byName  map[summaryName]*summaryGroup
	overall summaryGroup
	layouts bool // the keys are those of other limiters
	unsure  operation.Unsure
	all     bool // print all groups, not only the first
	seen    map[store.Key]bool
}

// summaryName is what the keys of a group have in common: a policy and its limit, the name of a limit without a policy,
// the layout and the name of another limiter's limit, or the value of an attribute.
type summaryName struct {
	layout, policy, limit string
	value                 string
	isNone                bool // the keys do not have the attribute
}

// summaryGroup counts keys.
type summaryGroup struct {
	name    summaryName
	keys    int64
	atLimit int64
	denied  int64 // denials
	drifted int64 // keys whose limit is not the configuration's
	bytes   int64
	unknown int64 // keys of which nobody knows whether they are at their limit
}

// summaryDocument is a group in JSON.
type summaryDocument struct {
	Layout string  `json:"layout,omitempty"`
	Policy *string `json:"policy,omitempty"`
	Limit  *string `json:"limit,omitempty"`
	By     string  `json:"by,omitempty"`
	Value  *string `json:"value,omitempty"`
	summaryFigures
}

// summaryFigures are the figures of a group, or of all keys, in JSON.
type summaryFigures struct {
	Keys    int64  `json:"keys"`
	AtLimit int64  `json:"at_limit"`
	Denied  *int64 `json:"denied"`
	Drifted int64  `json:"drifted"`
	Bytes   int64  `json:"bytes"`
	Unknown int64  `json:"unknown,omitempty"`
}

// atLimitText is how many keys are at their limit, and "?" if that is unknown for all of them.
func (g *summaryGroup) atLimitText() string {
	if g.unknown > 0 && g.unknown == g.keys {
		return cli.NotKnown
	}
	return cli.Number(g.atLimit)
}

// group returns the group of a key, with the layout that it has if it is another limiter's.
func (a *summaryAnswer) group(key store.Key, layout string) *summaryGroup {
	name := summaryName{limit: key.Name}
	if a.by != "" {
		value, has := operation.AttributeOf(key, a.by)
		name = summaryName{value: value, isNone: !has}
	} else if layout != "" {
		name.layout = layout
	} else if parts, ok := policy.ParseKey(key); ok {
		name = summaryName{policy: parts.Policy, limit: parts.Limit}
	}
	group := a.byName[name]
	if group == nil {
		name.value = strings.Clone(name.value) // so that the key is not kept in memory
		group = &summaryGroup{name: name}
		a.byName[name] = group
		a.groups = append(a.groups, group)
	}
	return group
}

func (a *summaryAnswer) add(row *inspectRow) {
	e := &row.entry
	for _, g := range []*summaryGroup{a.group(e.Key, e.Layout), &a.overall} {
		g.keys++
		g.bytes += e.Bytes
		g.denied += row.denied
		if e.AtLimit() {
			g.atLimit++
		}
		if !e.RemainingKnown() {
			g.unknown++
		}
		if row.hasDrifted() {
			g.drifted++
		}
	}
	if row.denied > 0 {
		a.seen[shortenedKey(e.Key)] = true
	}
}

// addUnused adds the denials of keys that the query selects and that are unused again.
func (a *summaryAnswer) addUnused(query *admin.Query) {
	for _, row := range a.facts.denials {
		if !a.seen[row.Key] && query.Has(row.Key) {
			a.group(row.Key, "").denied += row.Count
			a.overall.denied += row.Count
		}
	}
}

// finish orders the groups: those with the most keys first, or with the most denials.
func (a *summaryAnswer) finish(byDenied bool) {
	slices.SortFunc(a.groups, func(x, y *summaryGroup) int {
		if byDenied {
			if order := cmp.Compare(y.denied, x.denied); order != 0 {
				return order
			}
		}
		return cmp.Or(cmp.Compare(y.keys, x.keys), cmp.Compare(x.name.layout, y.name.layout), cmp.Compare(x.name.policy, y.name.policy),
			cmp.Compare(x.name.limit, y.name.limit), cmp.Compare(x.name.value, y.name.value))
	})
}

// document returns a group as its document.
func (a *summaryAnswer) document(g *summaryGroup) summaryDocument {
	d := summaryDocument{summaryFigures: summaryFigures{
		Keys: g.keys, AtLimit: g.atLimit, Drifted: g.drifted, Bytes: g.bytes, Unknown: g.unknown,
	}}
	switch {
	case a.by == "" && a.layouts:
		d.Layout, d.Limit = g.name.layout, &g.name.limit
	case a.by == "":
		d.Policy, d.Limit = &g.name.policy, &g.name.limit
	case g.name.isNone:
		d.By = a.by
	default:
		d.By, d.Value = a.by, &g.name.value
	}
	if a.facts.counted {
		d.Denied = &g.denied
	}
	return d
}

// Document implements output.Answer.
func (a *summaryAnswer) Document() any {
	d := struct {
		SchemaVersion int   `json:"schema_version"`
		Groups        []any `json:"groups"`
		summaryFigures
		Unsure *operation.Unsure `json:"unsure,omitempty"`
	}{SchemaVersion: output.SchemaVersion, Groups: a.Lines(), summaryFigures: a.document(&a.overall).summaryFigures}
	if a.layouts {
		d.Unsure = &a.unsure
	}
	return d
}

// Lines implements output.Answer.
func (a *summaryAnswer) Lines() []any {
	lines := make([]any, len(a.groups))
	for i, group := range a.groups {
		lines[i] = a.document(group)
	}
	return lines
}

// Records implements output.Answer.
func (a *summaryAnswer) Records() [][]string {
	records := [][]string{{"policy", "limit", "keys", "at_limit", "bytes", "denied", "drifted"}}
	if a.by != "" {
		records[0][0], records[0][1] = "by", "value"
	} else if a.layouts {
		records[0][0] = "layout"
	}
	for _, g := range a.groups {
		atLimit, denied := "", ""
		if text := g.atLimitText(); text != cli.NotKnown {
			atLimit = text
		}
		if a.facts.counted {
			denied = cli.Number(g.denied)
		}
		names := []string{g.name.policy, g.name.limit}
		if a.by != "" {
			names = []string{a.by, g.name.value}
		} else if a.layouts {
			names[0] = g.name.layout
		}
		records = append(records, append(names, cli.Number(g.keys), atLimit, cli.Number(g.bytes), denied, cli.Number(g.drifted)))
	}
	return records
}

// summaryRows is how many groups are printed without --all.
const summaryRows = 20

// Print implements output.Answer.
func (a *summaryAnswer) Print(p *output.Printer) {
	if len(a.groups) == 0 {
		return
	}
	columns := []output.Column{{Header: "POLICY", Shrinks: 8, Names: true}, {Header: "LIMIT", Shrinks: 8, Names: true}}
	if a.layouts {
		columns[0].Header, columns[1].Header = "LAYOUT", "NAME"
	}
	if a.by != "" {
		columns = []output.Column{{Header: strings.ToUpper(a.by), Shrinks: 8, Names: true}}
	}
	columns = append(columns, output.Column{Header: "KEYS", Right: true}, output.Column{Header: "AT LIMIT", Right: true})
	if !a.layouts { // nothing counts who is denied by others
		columns = append(columns, output.Column{Header: "DENIED", Right: true})
	}
	if a.overall.drifted > 0 {
		columns = append(columns, output.Column{Header: drifted, Right: true})
	}
	columns = append(columns, output.Column{Header: "BYTES", Right: true, Drops: 1})
	shown := a.groups
	if !a.all {
		shown = shown[:min(summaryRows, len(shown))]
	}
	var rows [][]output.Cell
	for _, g := range append(slices.Clone(shown), &a.overall) {
		style := output.Plain
		if g.atLimit > 0 {
			style = output.AtEnd
		}
		row := a.nameCells(g)
		row = append(row, output.Cell{Text: cli.Number(g.keys)}, output.Cell{Text: g.atLimitText(), Style: style})
		if !a.layouts {
			row = append(row, a.facts.deniedCell(g.denied))
		}
		if a.overall.drifted > 0 {
			row = append(row, output.Cell{Text: cli.Number(g.drifted), Style: output.Near})
		}
		rows = append(rows, append(row, output.Cell{Text: output.Bytes(g.bytes)}))
	}
	p.Table(columns, rows)
	if more := len(a.groups) - len(shown); more > 0 {
		p.Line("and %s more; -o jsonl has all", output.Thousands(int64(more)))
	}
	if a.overall.drifted > 0 {
		p.Line("%s these keys were last charged under another limit; that of the configuration is shown", drifted)
	}
}

// nameCells are the cells with the name of a group.
func (a *summaryAnswer) nameCells(g *summaryGroup) []output.Cell {
	switch {
	case g == &a.overall && a.by != "":
		return []output.Cell{{Text: "all"}}
	case g == &a.overall:
		return []output.Cell{{Text: "all"}, {Text: ""}}
	case g.name.isNone:
		return []output.Cell{{Text: "(none)", Style: output.Faint}}
	case a.by != "":
		return []output.Cell{{Text: g.name.value}}
	}
	return []output.Cell{{Text: cmp.Or(g.name.layout, g.name.policy, "-")}, {Text: g.name.limit}}
}

// keyOrder is the figure by which keys are ordered, the greatest first. Keys whose figure is unknown come last. Equal
// keys are ordered by name.
type keyOrder func(row *inspectRow) (figure float64, known bool)

// orders are the orders that keys can be shown in.
func orders() map[string]keyOrder {
	return map[string]keyOrder{
		"key":       func(*inspectRow) (float64, bool) { return 0, false },
		"share":     byShare,
		"used":      func(r *inspectRow) (float64, bool) { return float64(r.entry.Used), r.entry.UsedKnown() },
		"remaining": func(r *inspectRow) (float64, bool) { return -float64(r.entry.Remaining), r.entry.RemainingKnown() },
		"bytes":     func(r *inspectRow) (float64, bool) { return float64(r.entry.Bytes), true },
		"reset":     func(r *inspectRow) (float64, bool) { return float64(r.entry.ResetAfter), r.entry.ResetKnown() },
		"denied":    func(r *inspectRow) (float64, bool) { return float64(r.denied), true },
	}
}

// byShare orders by the used share of the limit. Keys whose share is not known come last:
// those with the most units in use first, then those of which only the reset is known.
func byShare(r *inspectRow) (figure float64, known bool) {
	e := &r.entry
	if share, known := e.Share(); known {
		return max(0, share), true
	}
	switch {
	case e.UsedKnown(): // from -1 to 0
		return -1 / (1 + max(0, float64(e.Used))), true
	case e.ResetKnown(): // from -2 to -1
		return -1 - 1/(1+max(0, e.ResetAfter.Seconds())), true
	}
	return 0, false
}

func orderNames() []string { return slices.Sorted(maps.Keys(orders())) }

// topRows keeps the first rows in an order, and not many more than its bound.
type topRows struct {
	rows  []topRow
	order keyOrder
	most  int // 0: all
}

// topRow is a row that is kept, and what it is ordered by.
type topRow struct {
	figure float64
	inspectRow
}

func (k *topRows) add(row *inspectRow) {
	figure, known := k.order(row)
	if !known {
		figure = math.Inf(-1)
	}
	kept := topRow{figure, *row}
	kept.entry.State, kept.entry.Record = nil, row.entry.Record.WithoutValues() // which may be large
	k.rows = append(k.rows, kept)
	const least = 100
	if k.most > 0 && len(k.rows) >= 2*max(least, k.most) {
		k.sort()
	}
}

// sort puts the rows into their order, and drops those beyond the bound.
func (k *topRows) sort() {
	slices.SortFunc(k.rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(b.figure, a.figure), cmp.Compare(a.entry.Key.Subject, b.entry.Key.Subject),
			cmp.Compare(a.entry.Key.Name, b.entry.Key.Name))
	})
	if k.most > 0 && len(k.rows) > k.most {
		clear(k.rows[k.most:])
		k.rows = k.rows[:k.most]
	}
}
