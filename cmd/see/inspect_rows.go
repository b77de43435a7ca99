package see

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// inspectAnswer is the state of keys: the first ones in an order, and not many more than its bound while they are
// collected.
type inspectAnswer struct {
	rows     []inspectRow
	order    func(*inspectRow) float64
	most     int               // 0: all
	unsure   *operation.Unsure // the keys that look like another limiter's and are left out; nil for limitctl's own
	exact    bool              // no count of denials is higher in truth
	denied   bool              // show how often keys were denied, even if none was
	complete bool              // the scan saw all selected keys
	now      time.Time
}

// orders are the figures by which keys can be ordered, the greatest first. What is not known comes last. Equal keys are
// ordered by name.
func orders() map[string]func(*inspectRow) float64 {
	return map[string]func(*inspectRow) float64{
		"key":    func(*inspectRow) float64 { return 0 },
		"share":  byShare,
		"used":   byUsed,
		"bytes":  func(r *inspectRow) float64 { return float64(r.entry.Bytes) },
		"denied": func(r *inspectRow) float64 { return float64(r.Denied) },
	}
}

func byUsed(r *inspectRow) float64 {
	if !r.entry.UsedKnown() {
		return math.Inf(-1)
	}
	return float64(r.entry.Used)
}

// byShare orders by the used share of the limit. Keys whose share is not known come last, those with the most units in
// use first.
func byShare(r *inspectRow) float64 {
	if share, known := r.entry.Share(); known {
		return max(0, share)
	}
	return -1 / (1 + max(0, byUsed(r)))
}

func (a *inspectAnswer) add(row *inspectRow) error {
	kept := *row
	kept.figure = a.order(row)
	kept.entry.State, kept.entry.Record = nil, row.entry.Record.WithoutValues() // which may be large
	a.rows = append(a.rows, kept)
	const least = 100
	if a.most > 0 && len(a.rows) >= 2*max(least, a.most) {
		a.sort()
	}
	return nil
}

// sort puts the rows into their order, and drops those beyond the bound.
func (a *inspectAnswer) sort() {
	slices.SortFunc(a.rows, func(a, b inspectRow) int {
		return cmp.Or(cmp.Compare(b.figure, a.figure), cmp.Compare(a.entry.Key.Subject, b.entry.Key.Subject),
			cmp.Compare(a.entry.Key.Name, b.entry.Key.Name))
	})
	if a.most > 0 && len(a.rows) > a.most {
		clear(a.rows[a.most:])
		a.rows = a.rows[:a.most]
	}
}

// Document implements output.Answer.
func (a *inspectAnswer) Document() any {
	return struct {
		SchemaVersion int               `json:"schema_version"`
		Complete      bool              `json:"complete"`
		Keys          []*decision.Entry `json:"keys"`
		Unsure        *operation.Unsure `json:"unsure,omitempty"`
	}{output.SchemaVersion, a.complete, a.documents(), a.unsure}
}

// Items implements output.Answer.
func (a *inspectAnswer) Items() any { return a.documents() }

func (a *inspectAnswer) documents() []*decision.Entry {
	all := make([]*decision.Entry, len(a.rows))
	for i := range all {
		all[i] = a.rows[i].document()
	}
	return all
}

// drifted marks a key whose limit is not the configuration's, and overridden one to which an override applies.
const drifted, overridden = "≠", "⚑"

// Print implements output.Answer.
func (a *inspectAnswer) Print(p *output.Printer) {
	if len(a.rows) == 0 {
		return
	}
	columns := []output.Column{{Header: "SUBJECT", Shrinks: 8, Names: true}, {Header: "NAME", Shrinks: 8, Names: true},
		{Header: "LIMIT", Drops: 3}, {Drops: 4}, {Header: "USED", Right: true},
		{Header: "REMAINING", Right: true, Drops: 2},
		{Optional: true}, {Header: "DENIED", Right: true, Optional: true}, {Header: "RESETS IN", Right: true},
		{Header: "BYTES", Right: true, Optional: true}}
	denied := a.denied || slices.ContainsFunc(a.rows, func(row inspectRow) bool { return row.Denied > 0 })
	var cells [][]output.Cell
	var applied []*store.Override
	var notes []string
	keys := map[string]int{} // of each note
	for i := range a.rows {
		row, e := &a.rows[i], &a.rows[i].entry
		applied = append(applied, row.Override)
		for _, note := range row.notes() {
			if keys[note]++; keys[note] == 1 {
				notes = append(notes, note)
			}
		}
		var count, bytes output.Cell
		if denied {
			count = a.deniedCell(row)
		}
		if e.Bytes > 0 {
			bytes.Text = cli.Number(e.Bytes)
		}
		style := closeness(e)
		cells = append(cells, []output.Cell{{Text: e.Key.Subject}, {Text: e.Key.Name}, {Text: rowLimitText(row)},
			{Text: barText(e), Style: style}, {Text: cli.UsedText(e), Style: style}, {Text: remainingText(e)},
			row.mark(), count,
			resetText(e), bytes})
	}
	p.Table(columns, cells)
	if slices.ContainsFunc(applied, func(o *store.Override) bool { return o != nil }) {
		p.Line("%s an override applies", overridden)
	}
	cli.PrintApplied(p, applied, a.now)
	for _, note := range notes {
		sign, text, _ := strings.Cut(note, " ")
		p.Line("%s %s: %s", sign, output.Count(keys[note], "key"), text)
	}
}

// defectMark marks a key with a defect.
const defectMark = "!"

// notes are what a line below the table says of the key and of those like it, behind their sign.
func (r *inspectRow) notes() (all []string) {
	if r.hasDrifted() {
		all = append(all, drifted+" last charged under another limit; that of the configuration is shown")
	}
	for _, d := range r.entry.Defects {
		text := defectMark + " " + d.Text
		if d.Stuck && d.Kind == admin.NeverExpires {
			text += "; reset --no-ttl deletes it"
		}
		all = append(all, text)
	}
	return all
}

// mark has the signs of a row, which lines below the table explain.
func (r *inspectRow) mark() (cell output.Cell) {
	if r.Override != nil {
		cell.Text = overridden
	}
	if r.hasDrifted() {
		cell = output.Cell{Text: cell.Text + drifted, Style: output.Near}
	}
	if len(r.entry.Defects) > 0 {
		cell = output.Cell{Text: cell.Text + defectMark, Style: output.AtEnd}
	}
	return cell
}

// deniedCell is how often a key was denied.
func (a *inspectAnswer) deniedCell(row *inspectRow) output.Cell {
	switch text := output.Thousands(row.Denied); {
	case !row.Counted:
		return output.Cell{Text: cli.NotKnown}
	case row.Denied == 0:
		return output.Cell{Text: "-"}
	case a.exact:
		return output.Cell{Text: text, Style: output.AtEnd}
	default:
		return output.Cell{Text: "≥" + text, Style: output.AtEnd}
	}
}

// barWidth is the bar's columns in the table.
const barWidth = 10

// barText draws the used share of the limit, or nothing if it is unknown.
func barText(e *admin.Entry) string {
	if !e.RemainingKnown() {
		return ""
	}
	return output.Bar(e.Used, e.Limit.Capacity(), barWidth)
}

// resetText is when a key is unused again, or a warning if it stays for ever. A key that its limiter keeps on purpose
// without an expiry gets its units back anyway.
func resetText(e *admin.Entry) output.Cell {
	switch {
	case e.TTL < 0 && !e.KeptOnPurpose():
		return output.Cell{Text: "no TTL", Style: output.Near}
	case !e.ResetKnown():
		return output.Cell{Text: cli.NotKnown}
	}
	if end, has := e.LastLimit().WindowEnds(); has && e.ResetAfter > 0 {
		return output.Cell{Text: output.Minute(end)}
	}
	return output.Cell{Text: cli.OrDash(e.ResetAfter)}
}

// rowLimitText is the limit of a row, and the limit under the override.
func rowLimitText(row *inspectRow) string {
	o := row.Override
	switch {
	case o == nil:
		return limitText(&row.entry)
	case o.Effect == store.OverrideLimit:
		return allowance.Effect(o)
	}
	before := row.entry
	before.Limit = row.limit
	return limitText(&before) + " " + allowance.Effect(o)
}

// limitText is the limit, without the algorithm where the key's name says it.
func limitText(e *admin.Entry) string {
	text := e.LimitText()
	if e.LimitKnown() && e.Key.Name == e.Limit.DefaultName() {
		text = text[len(e.Limit.Algorithm.String())+1:]
	}
	return text
}

func remainingText(e *admin.Entry) string {
	if !e.RemainingKnown() {
		return cli.NotKnown
	}
	return cli.Number(e.Remaining)
}

// closeness is the colour of an entry that is near its limit or at it.
func closeness(e *admin.Entry) output.Style {
	switch share, known := e.Share(); {
	case !known:
		return output.Plain
	case e.AtLimit():
		return output.AtEnd
	case share >= admin.NearShare:
		return output.Near
	}
	return output.Plain
}
