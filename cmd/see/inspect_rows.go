package see

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// inspectAnswer is the state of keys.
type inspectAnswer struct {
	top     *topRows
	facts   *keyFacts
	bytes   bool // show them
	foreign bool // the keys are foreign
	layouts bool // the keys are those of other limiters
	// resetNoTTL is the command that shows what a reset of keys without expiry would delete.
	resetNoTTL string
	// unsure are the keys that look like another limiter's and are left out.
	unsure   operation.Unsure
	denied   bool // show how often keys were denied, even if none was
	complete bool // the scan saw all selected keys
	now      time.Time
}

func (a *inspectAnswer) rows() int { return len(a.top.rows) }

// valueDocument is a value that limitctl did not write.
type valueDocument struct {
	Key      string `json:"key"`
	StoreKey string `json:"store_key"`
	Name     string `json:"name"`
	Holds    string `json:"holds"`
	// StoreKeyBase64 are the bytes of a store key that is not UTF-8.
	StoreKeyBase64 string `json:"store_key_base64,omitempty"`
}

// line is the document of one row.
func (a *inspectAnswer) line(row *inspectRow) any {
	if a.foreign {
		return valueDocument{Key: row.entry.Key.Subject, StoreKey: row.entry.StoreKey, Name: row.entry.Key.Name, Holds: row.holds,
			StoreKeyBase64: output.Base64IfNeeded(row.entry.StoreKey)}
	}
	return a.document(row)
}

// document is the document of a row that is a limit.
func (a *inspectAnswer) document(row *inspectRow) *decision.Entry {
	return decision.NewEntry(&row.entry, decision.Facts{Denied: row.denied, Counted: a.facts.counted, Configured: row.configured,
		Override: row.override})
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
	header = append(header, "override", "denied", "policy", "limit", "attributes", "configured_limit", "recorded_limit")
	if a.layouts {
		header = append(header, "layout", "store_keys", "defects")
	}
	return header
}

// csvRow is one row of CSV. An unknown value is an empty cell.
func (a *inspectAnswer) csvRow(row *inspectRow) []string {
	if a.foreign {
		return []string{row.entry.Key.Subject, row.entry.StoreKey, row.entry.Key.Name, row.holds}
	}
	d := a.document(row)
	cell := func(n *int64) string {
		if n == nil {
			return ""
		}
		return cli.Number(*n)
	}
	algorithm, sliced := "", ""
	if d.Algorithm != nil {
		algorithm = *d.Algorithm
	}
	if d.Slices != 0 {
		sliced = cli.Number(d.Slices)
	}
	cells := []string{d.Key, d.StoreKey, cli.Number(d.TTLMS), d.Name, algorithm, cell(d.Count), cell(d.PeriodMS), cell(d.Burst), sliced,
		cell(d.Used), cell(d.Remaining), cell(d.RetryAfterMS), cell(d.ResetAfterMS), cell(d.DelayMS)}
	if a.bytes {
		cells = append(cells, cli.Number(d.Bytes))
	}
	override := ""
	if row.override != nil {
		override = row.override.ID
	}
	cells = append(cells, override, cell(d.Denied), d.Policy, d.Limit, d.Attributes.Text(), d.ConfiguredLimit, d.RecordedLimit)
	if a.layouts {
		var kinds []string
		for i := range d.Defects {
			kinds = append(kinds, string(d.Defects[i].Kind))
		}
		cells = append(cells, d.Layout, shell.Command(d.StoreKeys...), strings.Join(kinds, " "))
	}
	return cells
}

// Document implements output.Answer.
func (a *inspectAnswer) Document() any {
	d := struct {
		SchemaVersion int               `json:"schema_version"`
		Complete      bool              `json:"complete"`
		Keys          []any             `json:"keys"`
		Unsure        *operation.Unsure `json:"unsure,omitempty"`
	}{SchemaVersion: output.SchemaVersion, Complete: a.complete, Keys: a.Lines()}
	if a.layouts {
		d.Unsure = &a.unsure
	}
	return d
}

// Lines implements output.Answer.
func (a *inspectAnswer) Lines() []any {
	lines := make([]any, a.rows())
	for i := range lines {
		row := &a.top.rows[i].inspectRow
		lines[i] = a.line(row)
	}
	return lines
}

// Records implements output.Answer.
func (a *inspectAnswer) Records() [][]string {
	records := [][]string{a.header()}
	for i := range a.top.rows {
		row := &a.top.rows[i].inspectRow
		records = append(records, a.csvRow(row))
	}
	return records
}

// write writes the rows one after the other, in a format that streams.
func (a *inspectAnswer) write(stream *output.Stream) error {
	for i := range a.top.rows {
		row := &a.top.rows[i].inspectRow
		if err := stream.Write(a.line(row), func() []string { return a.csvRow(row) }); err != nil {
			return err
		}
	}
	return nil
}

// drifted marks a key whose limit is not the configuration's, and overridden one to which an override applies.
const drifted, overridden = "≠", "⚑"

// Print implements output.Answer.
func (a *inspectAnswer) Print(p *output.Printer) {
	if a.rows() == 0 {
		return
	}
	if a.foreign {
		a.printForeign(p)
		return
	}
	rows := make([]inspectRow, a.rows())
	denied, drifting, marked := a.denied, 0, false
	var applied []*store.Override
	for i := range rows {
		rows[i] = a.top.rows[i].inspectRow
		denied, marked = denied || rows[i].denied > 0, marked || rows[i].mark().Text != ""
		if applied = append(applied, rows[i].override); rows[i].hasDrifted() {
			drifting++
		}
	}
	defects, stuck := countDefects(rows)
	columns := []output.Column{{Header: "SUBJECT", Shrinks: 8, Names: true}, {Header: "NAME", Shrinks: 8, Names: true},
		{Header: "LIMIT", Drops: 3}, {Drops: 4}, {Header: "USED", Right: true}, {Header: "REMAINING", Right: true, Drops: 2}}
	if marked {
		columns = append(columns, output.Column{})
	}
	if denied {
		columns = append(columns, output.Column{Header: "DENIED", Right: true})
	}
	columns = append(columns, output.Column{Header: "RESETS IN", Right: true})
	if a.bytes {
		columns = append(columns, output.Column{Header: "BYTES", Right: true})
	}
	cells := make([][]output.Cell, len(rows))
	for i := range rows {
		e := &rows[i].entry
		style := closeness(e)
		row := []output.Cell{{Text: e.Key.Subject}, {Text: e.Key.Name}, {Text: rowLimitText(&rows[i])},
			{Text: barText(e), Style: style}, {Text: cli.UsedText(e), Style: style}, {Text: remainingText(e)}}
		if marked {
			row = append(row, rows[i].mark())
		}
		if denied {
			row = append(row, a.facts.deniedCell(rows[i].denied))
		}
		row = append(row, resetText(e))
		if a.bytes {
			row = append(row, output.Cell{Text: cli.Number(e.Bytes)})
		}
		cells[i] = row
	}
	p.Table(columns, cells)
	if slices.ContainsFunc(applied, func(o *store.Override) bool { return o != nil }) {
		p.Line("%s an override applies", overridden)
	}
	cli.PrintApplied(p, applied, a.now)
	if drifting > 0 {
		p.Line("%s %s last charged under another limit; that of the configuration is shown", drifted, keysWere(drifting))
	}
	printDefects(p, defects, stuck, a.resetNoTTL)
	printOverfull(p, rows)
}

// mark has the signs of a row, which lines below the table explain.
func (r *inspectRow) mark() (cell output.Cell) {
	if r.override != nil {
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

// keysWere writes a number of keys, with was or were.
func keysWere(n int) string {
	if n == 1 {
		return "1 key was"
	}
	return output.Plural(n, "key") + " were"
}

// deniedCell is how often keys were denied.
func (f *keyFacts) deniedCell(n int64) output.Cell {
	switch text := output.Thousands(n); {
	case !f.counted:
		return output.Cell{Text: cli.NotKnown}
	case n == 0:
		return output.Cell{Text: "-"}
	case f.exact:
		return output.Cell{Text: text, Style: output.AtEnd}
	default:
		return output.Cell{Text: "≥" + text, Style: output.AtEnd}
	}
}

func (a *inspectAnswer) printForeign(p *output.Printer) {
	columns := []output.Column{{Header: "STORE KEY", Shrinks: 12, Names: true}, {Header: "HOLDS", Shrinks: 8}}
	var rows [][]output.Cell
	for i := range a.top.rows {
		row := &a.top.rows[i].inspectRow
		rows = append(rows, []output.Cell{{Text: row.entry.StoreKey}, {Text: row.holds}})
	}
	p.Table(columns, rows)
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
	o := row.override
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

// inspectRow is a key that inspect shows, with facts besides its state.
type inspectRow struct {
	entry  admin.Entry
	holds  string // the kind of a foreign value
	denied int64  // denials of the last operation.DeniedLately
	// limit is that of the configuration, else the recorded one, without the override.
	limit store.Limit
	// configured is the limit of the configuration, if the key was charged under another one.
	configured store.Limit
	// override is the operator's override that applies to the key, or nil.
	override *store.Override
}

// hasDrifted reports whether the configuration has another limit than the key.
func (r *inspectRow) hasDrifted() bool { return r.configured != (store.Limit{}) }

// keyFacts are facts about keys besides their state: how often they were denied, and their configured limits.
type keyFacts struct {
	// counted: the store counts denials. exact: no count is higher in truth.
	counted, exact bool
	denials        []admin.Denied
	denied         map[store.Key]int64
	inForce        *cli.InForce
	limits         allowance.ConfiguredLimits
	overrides      *store.OverrideList
}

// keyFacts reads the facts about keys. With needed, it fails if the denials are unknown.
func (o *inspectOptions) keyFacts(ctx context.Context, backend store.Store, needed bool) (*keyFacts, error) {
	f := &keyFacts{denied: map[store.Key]int64{}}
	if o.Layouts != nil { // facts about limitctl's own keys do not apply to others
		if needed {
			return f, store.Invalidf("nothing counts who is denied by other limiters")
		}
		return f, nil
	}
	c, err := o.InForce(ctx)
	if err != nil {
		return f, err
	}
	f.inForce, f.limits = c, allowance.NewConfiguredLimits(c.Policies)
	f.overrides, o.withoutOverrides = cli.OverridesOf(ctx, o.Globals, backend)
	ctx, cancel := store.BudgetContext(ctx, o.Timeout)
	defer cancel()
	table, has := admin.TablesOf(backend)
	if !has {
		if needed {
			return f, store.Invalidf("this store keeps no denials")
		}
		return f, nil
	}
	denials, err := table.Denials(ctx, operation.DeniedLately)
	if err != nil && !cli.IsPartial(err) { // such as a user without the right to read them
		if needed {
			return f, err
		}
		return f, nil
	}
	f.counted, f.exact, f.denials = true, denials.Exact(), denials.Rows
	for _, row := range denials.Rows {
		f.denied[row.Key] = row.Count
	}
	return f, nil
}

// row returns what inspect shows of a key.
func (f *keyFacts) row(e *admin.Entry, foreign error) inspectRow {
	row := inspectRow{entry: *e, holds: foreignText(foreign)}
	if len(f.denied) > 0 {
		row.denied = f.deniedOf(e.Key)
	}
	if foreign == nil {
		row.override = f.overrideOf(e.Key)
	}
	if row.override == nil && e.Recorded == (store.Limit{}) {
		return row // it was charged under the limit that is in force
	}
	recorded := e.LastLimit()
	limit, _ := f.limits.Of(e.Key, recorded, row.override)
	if row.override != nil {
		row.limit = limit
	}
	if e.LimitKnown() && f.limits.HasDrifted(e.Key, recorded, row.override) {
		row.configured = limit
	}
	return row
}

// overrideOf returns the operator's override that applies to a key, or nil.
func (f *keyFacts) overrideOf(key store.Key) *store.Override {
	if f.overrides == nil {
		return nil
	}
	return f.overrides.For(key)
}

// selecting returns a selection whose entries are judged by the limits and overrides in force.
func (f *keyFacts) selecting(s *operation.Selection) *operation.Selection {
	if f.inForce == nil { // the keys are other limiters'
		return s
	}
	own := f.inForce.Judging(*s, f.overrides)
	return &own
}

// deniedOf returns how often a key was denied.
func (f *keyFacts) deniedOf(key store.Key) int64 {
	return f.denied[shortenedKey(key)]
}

// shortenedKey is the key that the table of denials has for a key.
func shortenedKey(key store.Key) store.Key {
	if len(key.Subject) <= admin.MaxDenialText && len(key.Name) <= admin.MaxDenialText {
		return key
	}
	shortened := admin.Denied{Key: key}
	shortened.Shorten()
	return shortened.Key
}
