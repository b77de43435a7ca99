package cmd

import (
	"cmp"
	"container/heap"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// inspectRow is a key that inspect shows; holds says what a foreign one holds.
type inspectRow struct {
	entry limiter.Entry
	holds string
	// override is an operator's that applies to it, nil if none does.
	override *limiter.Override
}

// newInspectRow returns the row of a key; foreign is the error of a foreign one.
func newInspectRow(e *limiter.Entry, foreign error, overrides *limiter.OverrideList) inspectRow {
	if foreign != nil {
		return inspectRow{entry: *e, holds: foreignText(foreign)}
	}
	return inspectRow{entry: *e, override: overrides.For(e.Key)}
}

// orders are the orders that keys can be shown in. Keys without the figure that
// the order needs come last. Equals are in the order of their names.
func orders() map[string]func(a, b *inspectRow) int {
	byName := func(a, b *inspectRow) int {
		return cmp.Or(cmp.Compare(a.entry.Key.Subject, b.entry.Key.Subject), cmp.Compare(a.entry.Key.Name, b.entry.Key.Name))
	}
	most := func(value func(e *limiter.Entry) (n float64, known bool)) func(a, b *inspectRow) int {
		orLast := func(e *limiter.Entry) float64 {
			if n, known := value(e); known {
				return n
			}
			return math.Inf(-1)
		}
		return func(a, b *inspectRow) int {
			return cmp.Or(cmp.Compare(orLast(&b.entry), orLast(&a.entry)), byName(a, b))
		}
	}
	return map[string]func(a, b *inspectRow) int{
		"key":       byName,
		"share":     most((*limiter.Entry).Share),
		"used":      most(func(e *limiter.Entry) (float64, bool) { return float64(e.Used), e.UsedKnown() }),
		"remaining": most(func(e *limiter.Entry) (float64, bool) { return -float64(e.Remaining), e.RemainingKnown() }),
		"bytes":     most(func(e *limiter.Entry) (float64, bool) { return float64(e.Bytes), true }),
		"reset":     most(func(e *limiter.Entry) (float64, bool) { return float64(e.ResetAfter), e.ResetKnown() }),
	}
}

func orderNames() []string { return slices.Sorted(maps.Keys(orders())) }

// topRows keeps the first rows in an order, never more than its bound.
type topRows struct {
	rows  []inspectRow
	order func(a, b *inspectRow) int
	most  int // 0: all
}

func newTopRows(order func(a, b *inspectRow) int, most int) *topRows {
	return &topRows{order: order, most: most}
}

func (t *topRows) add(row inspectRow) {
	switch {
	case t.most == 0:
		t.rows = append(t.rows, row)
	case len(t.rows) < t.most:
		heap.Push(t, row)
	case t.order(&row, &t.rows[0]) < 0: // before the last that is kept
		t.rows[0] = row
		heap.Fix(t, 0)
	}
}

func (t *topRows) sorted() []inspectRow {
	slices.SortFunc(t.rows, func(a, b inspectRow) int { return t.order(&a, &b) })
	return t.rows
}

// Len, Less, Swap, Push and Pop implement heap.Interface, the last row on top.
func (t *topRows) Len() int           { return len(t.rows) }
func (t *topRows) Less(i, j int) bool { return t.order(&t.rows[i], &t.rows[j]) > 0 }
func (t *topRows) Swap(i, j int)      { t.rows[i], t.rows[j] = t.rows[j], t.rows[i] }
func (t *topRows) Push(row any)       { t.rows = append(t.rows, row.(inspectRow)) }
func (t *topRows) Pop() any {
	last := t.rows[len(t.rows)-1]
	t.rows = t.rows[:len(t.rows)-1]
	return last
}

// inspectAnswer is the state of keys.
type inspectAnswer struct {
	inspected []inspectRow
	bytes     bool // show them
	foreign   bool // the keys are foreign
	now       time.Time
}

func (a *inspectAnswer) rows() int { return len(a.inspected) }

// foreignDocument is a value that limitctl did not write.
type foreignDocument struct {
	Key      string `json:"key"`
	StoreKey string `json:"store_key"`
	Name     string `json:"name"`
	Holds    string `json:"holds"`
}

// line is the document of one row.
func (a *inspectAnswer) line(row *inspectRow) any {
	if a.foreign {
		return foreignDocument{row.entry.Key.Subject, row.entry.StoreKey, row.entry.Key.Name, row.holds}
	}
	d := newEntryDocument(&row.entry)
	d.Override = newAppliedOverride(row.override, limiter.Limit{})
	return d
}

func (a *inspectAnswer) header() []string {
	if a.foreign {
		return []string{"key", "store_key", "name", "holds"}
	}
	header := []string{"key", "store_key", "ttl_ms", "name", "algorithm", "count", "period_ms", "burst", "slices",
		"used", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"}
	if a.bytes {
		header = append(header, "bytes")
	}
	return append(header, "override")
}

// csvRow is one row of CSV. What is not known is an empty cell.
func (a *inspectAnswer) csvRow(row *inspectRow) []string {
	if a.foreign {
		return []string{row.entry.Key.Subject, row.entry.StoreKey, row.entry.Key.Name, row.holds}
	}
	d := newEntryDocument(&row.entry)
	cell := func(n *int64) string {
		if n == nil {
			return ""
		}
		return number(*n)
	}
	algorithm, slices := "", ""
	if d.Algorithm != nil {
		algorithm = *d.Algorithm
	}
	if d.Slices != 0 {
		slices = number(d.Slices)
	}
	cells := []string{d.Key, d.StoreKey, number(d.TTLMS), d.Name, algorithm, cell(d.Count), cell(d.PeriodMS), cell(d.Burst), slices,
		cell(d.Used), cell(d.Remaining), cell(d.RetryAfterMS), cell(d.ResetAfterMS), cell(d.DelayMS)}
	if a.bytes {
		cells = append(cells, number(d.Bytes))
	}
	override := ""
	if row.override != nil {
		override = row.override.ID
	}
	return append(cells, override)
}

// Document implements output.Answer.
func (a *inspectAnswer) Document() any {
	return struct {
		SchemaVersion int   `json:"schema_version"`
		Keys          []any `json:"keys"`
	}{output.SchemaVersion, a.Lines()}
}

// Lines implements output.Answer.
func (a *inspectAnswer) Lines() []any {
	lines := make([]any, len(a.inspected))
	for i := range a.inspected {
		lines[i] = a.line(&a.inspected[i])
	}
	return lines
}

// Records implements output.Answer.
func (a *inspectAnswer) Records() [][]string {
	records := [][]string{a.header()}
	for i := range a.inspected {
		records = append(records, a.csvRow(&a.inspected[i]))
	}
	return records
}

// Print implements output.Answer.
func (a *inspectAnswer) Print(p *output.Printer) {
	if len(a.inspected) == 0 {
		return
	}
	if a.foreign {
		a.printForeign(p)
		return
	}
	columns := []output.Column{{Header: "SUBJECT", Shrinks: 8, Names: true}, {Header: "NAME", Shrinks: 8, Names: true}, {Header: "LIMIT", Shrinks: 8, Drops: 3},
		{Drops: 4}, {Header: "USED", Right: true}, {Header: "REMAINING", Right: true, Drops: 2}, {Header: "RESETS IN", Right: true}}
	if a.bytes {
		columns = append(columns, output.Column{Header: "BYTES", Right: true})
	}
	var rows [][]output.Cell
	var applied []*limiter.Override
	for i := range a.inspected {
		e := &a.inspected[i].entry
		style := closeness(e)
		row := []output.Cell{{Text: e.Key.Subject}, {Text: e.Key.Name}, {Text: limitText(e)},
			{Text: barText(e), Style: style}, {Text: usedText(e), Style: style}, {Text: remainingText(e)}, resetText(e)}
		if o := a.inspected[i].override; o != nil {
			row[2].Text += " " + effectText(o)
			row[4].Text += overrideMark
		}
		if a.bytes {
			row = append(row, output.Cell{Text: number(e.Bytes)})
		}
		rows = append(rows, row)
		applied = append(applied, a.inspected[i].override)
	}
	p.Table(columns, rows)
	printApplied(p, applied, a.now)
}

func (a *inspectAnswer) printForeign(p *output.Printer) {
	columns := []output.Column{{Header: "STORE KEY", Shrinks: 12, Names: true}, {Header: "HOLDS", Shrinks: 8}}
	var rows [][]output.Cell
	for i := range a.inspected {
		rows = append(rows, []output.Cell{{Text: a.inspected[i].entry.StoreKey}, {Text: a.inspected[i].holds}})
	}
	p.Table(columns, rows)
}
