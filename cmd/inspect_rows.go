package cmd

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// inspectRow is a key that inspect shows; holds says what a foreign one holds.
type inspectRow struct {
	entry limiter.Entry
	holds string
}

// orders are the orders that keys can be shown in; equals are in the order of their
// names.
func orders() map[string]func(a, b *inspectRow) int {
	byName := func(a, b *inspectRow) int {
		return cmp.Or(cmp.Compare(a.entry.Key.Subject, b.entry.Key.Subject), cmp.Compare(a.entry.Key.Name, b.entry.Key.Name))
	}
	most := func(value func(e *limiter.Entry) float64) func(a, b *inspectRow) int {
		return func(a, b *inspectRow) int {
			return cmp.Or(cmp.Compare(value(&b.entry), value(&a.entry)), byName(a, b))
		}
	}
	return map[string]func(a, b *inspectRow) int{
		"key":       byName,
		"share":     most(share),
		"used":      most(func(e *limiter.Entry) float64 { return float64(e.Decision.Used) }),
		"remaining": most(func(e *limiter.Entry) float64 { return -float64(e.Decision.Remaining) }),
		"bytes":     most(func(e *limiter.Entry) float64 { return float64(e.Bytes) }),
		"reset":     most(func(e *limiter.Entry) float64 { return float64(e.Decision.ResetAfter) }),
	}
}

func orderNames() []string { return slices.Sorted(maps.Keys(orders())) }

// topRows keeps the first rows in an order, at most so many of them at any time.
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
}

func (a *inspectAnswer) rows() int { return len(a.inspected) }

type entryDocument struct {
	Key      string `json:"key"`
	StoreKey string `json:"store_key"`
	TTLMS    int64  `json:"ttl_ms"` // -1: it never expires, which is somebody's doing
	limitDocument
	Bytes int64 `json:"bytes,omitempty"`
}

func newEntryDocument(e *limiter.Entry) entryDocument {
	ttl := output.Milliseconds(e.TTL)
	if e.TTL < 0 {
		ttl = -1
	}
	return entryDocument{e.Key.Subject, e.StoreKey, ttl, newLimitDocument(e.Key.Name, e.Limit, e.Decision), e.Bytes}
}

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
	return newEntryDocument(&row.entry)
}

func (a *inspectAnswer) header() []string {
	if a.foreign {
		return []string{"key", "store_key", "name", "holds"}
	}
	header := []string{"key", "store_key", "ttl_ms", "name", "algorithm", "count", "period_ms", "burst",
		"used", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"}
	if a.bytes {
		header = append(header, "bytes")
	}
	return header
}

// record is one row of CSV.
func (a *inspectAnswer) record(row *inspectRow) []string {
	if a.foreign {
		return []string{row.entry.Key.Subject, row.entry.StoreKey, row.entry.Key.Name, row.holds}
	}
	d := newEntryDocument(&row.entry)
	record := []string{d.Key, d.StoreKey, number(d.TTLMS), d.Name, d.Algorithm, number(d.Count), number(d.PeriodMS),
		number(d.Burst), number(d.Used), number(d.Remaining), number(d.RetryAfterMS), number(d.ResetAfterMS), number(d.DelayMS)}
	if a.bytes {
		record = append(record, number(d.Bytes))
	}
	return record
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
		records = append(records, a.record(&a.inspected[i]))
	}
	return records
}

// barWidth is the bar's columns in the table.
const barWidth = 10

// Print implements output.Answer.
func (a *inspectAnswer) Print(p *output.Printer) {
	if len(a.inspected) == 0 {
		return
	}
	if a.foreign {
		a.printForeign(p)
		return
	}
	columns := []output.Column{{Header: "KEY", Shrinks: 8}, {Header: "NAME", Shrinks: 6, Drops: 1}, {Header: "LIMIT", Shrinks: 8, Drops: 3},
		{Drops: 4}, {Header: "USED", Right: true}, {Header: "REMAINING", Right: true, Drops: 2}, {Header: "RESETS IN", Right: true}}
	if a.bytes {
		columns = append(columns, output.Column{Header: "BYTES", Right: true})
	}
	var rows [][]output.Cell
	for i := range a.inspected {
		e := &a.inspected[i].entry
		style := closeness(e)
		row := []output.Cell{{Text: output.Printable(e.Key.Subject)}, {Text: output.Printable(e.Key.Name)}, {Text: limitText(e)},
			{Text: output.Bar(e.Decision.Used, e.Limit.Capacity(), barWidth), Style: style}, {Text: usedText(e), Style: style},
			{Text: number(e.Decision.Remaining)}, resetText(e)}
		if a.bytes {
			row = append(row, output.Cell{Text: number(e.Bytes)})
		}
		rows = append(rows, row)
	}
	p.Table(columns, rows)
}

func (a *inspectAnswer) printForeign(p *output.Printer) {
	columns := []output.Column{{Header: "STORE KEY", Shrinks: 12}, {Header: "HOLDS", Shrinks: 8}}
	var rows [][]output.Cell
	for i := range a.inspected {
		rows = append(rows, []output.Cell{{Text: output.Printable(a.inspected[i].entry.StoreKey)}, {Text: a.inspected[i].holds}})
	}
	p.Table(columns, rows)
}

// resetText says when a key is unused again, and warns of one that stays for ever.
func resetText(e *limiter.Entry) output.Cell {
	if e.TTL < 0 {
		return output.Cell{Text: "no TTL", Style: output.Near}
	}
	return output.Cell{Text: orDash(e.Decision.ResetAfter)}
}

// limitText is the limit, without the algorithm where the key's name says it.
func limitText(e *limiter.Entry) string {
	text := e.Limit.String()
	if e.Key.Name == e.Limit.DefaultName() {
		text = text[len(e.Limit.Algorithm.String())+1:]
	}
	return text
}

func usedText(e *limiter.Entry) string {
	return number(e.Decision.Used) + "/" + number(e.Limit.Capacity())
}

// closeness is the colour of an entry: calm, near the limit, or at it.
func closeness(e *limiter.Entry) output.Style {
	switch {
	case e.Decision.Remaining == 0:
		return output.AtEnd
	case share(e) >= 0.8:
		return output.Near
	}
	return output.Calm
}
