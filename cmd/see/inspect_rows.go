package see

import (
	"context"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// inspectAnswer is the state of keys.
type inspectAnswer struct {
	top     *topRows
	facts   *keyFacts
	bytes   bool // show them
	layouts bool // the keys are those of other limiters
	// unsure are the keys that look like another limiter's and are left out.
	unsure   operation.Unsure
	denied   bool // show how often keys were denied, even if none was
	complete bool // the scan saw all selected keys
	now      time.Time
}

// Document implements output.Answer.
func (a *inspectAnswer) Document() any {
	d := struct {
		SchemaVersion int               `json:"schema_version"`
		Complete      bool              `json:"complete"`
		Keys          []*decision.Entry `json:"keys"`
		Unsure        *operation.Unsure `json:"unsure,omitempty"`
	}{SchemaVersion: output.SchemaVersion, Complete: a.complete, Keys: a.documents()}
	if a.layouts {
		d.Unsure = &a.unsure
	}
	return d
}

// Lines implements output.Answer.
func (a *inspectAnswer) Lines() []any {
	lines := make([]any, len(a.top.rows))
	for i, document := range a.documents() {
		lines[i] = document
	}
	return lines
}

func (a *inspectAnswer) documents() []*decision.Entry {
	all := make([]*decision.Entry, len(a.top.rows))
	for i := range all {
		all[i] = a.facts.document(&a.top.rows[i].inspectRow)
	}
	return all
}

// Records implements output.Answer.
func (a *inspectAnswer) Records() [][]string { return output.Rows(a.documents()) }

// drifted marks a key whose limit is not the configuration's, and overridden one to which an override applies.
const drifted, overridden = "≠", "⚑"

// Print implements output.Answer.
func (a *inspectAnswer) Print(p *output.Printer) {
	if len(a.top.rows) == 0 {
		return
	}
	columns := []output.Column{{Header: "SUBJECT", Shrinks: 8, Names: true}, {Header: "NAME", Shrinks: 8, Names: true},
		{Header: "LIMIT", Drops: 3}, {Drops: 4}, {Header: "USED", Right: true},
		{Header: "REMAINING", Right: true, Drops: 2},
		{Optional: true}, {Header: "DENIED", Right: true, Optional: true}, {Header: "RESETS IN", Right: true},
		{Header: "BYTES", Right: true, Optional: true}}
	rows := a.top.rows
	denied := a.denied || slices.ContainsFunc(rows, func(row topRow) bool { return row.denied > 0 })
	var cells [][]output.Cell
	var applied []*store.Override
	drifting := 0
	for i := range rows {
		row, e := &rows[i].inspectRow, &rows[i].entry
		if applied = append(applied, row.override); row.hasDrifted() {
			drifting++
		}
		var count, bytes output.Cell
		if denied {
			count = a.facts.deniedCell(row.denied)
		}
		if a.bytes {
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
	if drifting > 0 {
		p.Line("%s %s last charged under another limit; that of the configuration is shown", drifted,
			keysWere(drifting))
	}
	printDefects(p, rows)
}

// defectMark marks a key with a defect.
const defectMark = "!"

// printDefects says which defects the marked keys have, each once, and what helps.
func printDefects(p *output.Printer, rows []topRow) {
	var texts []string
	keys, stuck := map[string]int{}, false
	for i := range rows {
		for _, d := range rows[i].entry.Defects {
			if keys[d.Text]++; keys[d.Text] == 1 {
				texts = append(texts, d.Text)
			}
			stuck = stuck || d.Stuck && d.Kind == admin.NeverExpires
		}
	}
	for _, text := range texts {
		p.Line("%s %s: %s", defectMark, output.Plural(keys[text], "key"), text)
	}
	if stuck {
		p.Line("%s reset --no-ttl deletes what stays for ever; look first with --dry-run", defectMark)
	}
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
	denied int64 // denials of the last operation.DeniedLately
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
	uncounted      error // why they cannot be read
	denied         map[store.Key]int64
	inForce        *cli.InForce
	limits         allowance.ConfiguredLimits
	overrides      *store.OverrideList
}

// keyFacts reads the facts about keys. Those about limitctl's own do not apply to others.
func (o *inspectOptions) keyFacts(ctx context.Context, backend store.Store) (*keyFacts, error) {
	f := &keyFacts{denied: map[store.Key]int64{}}
	if o.Layouts != nil {
		return f, nil
	}
	c, err := o.InForce(ctx)
	if err != nil {
		return f, err
	}
	f.inForce, f.limits = c, allowance.NewConfiguredLimits(c.Policies)
	f.overrides, o.withoutOverrides = cli.OverridesOf(ctx, o.Globals, backend)
	table, has := admin.TablesOf(backend)
	if !has {
		return f, nil
	}
	ctx, cancel := store.BudgetContext(ctx, o.Timeout)
	defer cancel()
	denials, err := table.Denials(ctx, operation.DeniedLately)
	if err != nil && !cli.IsPartial(err) { // such as a user without the right to read them
		f.uncounted = err
		return f, nil
	}
	f.counted, f.exact = true, denials.Exact()
	for _, row := range denials.Rows {
		f.denied[row.Key] = row.Count
	}
	return f, nil
}

// row returns what inspect shows of a key.
func (f *keyFacts) row(e *admin.Entry) inspectRow {
	row := inspectRow{entry: *e}
	if len(f.denied) > 0 {
		row.denied = f.denied[shortenedKey(e.Key)]
	}
	if f.overrides != nil {
		row.override = f.overrides.For(e.Key)
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

// document is the document of a row.
func (f *keyFacts) document(row *inspectRow) *decision.Entry {
	return decision.NewEntry(&row.entry,
		decision.Facts{Denied: row.denied, Counted: f.counted, Configured: row.configured, Override: row.override})
}

// selecting returns a selection whose entries are judged by the limits and overrides in force.
func (f *keyFacts) selecting(s *operation.Selection) *operation.Selection {
	if f.inForce == nil { // the keys are other limiters'
		return s
	}
	own := f.inForce.Judging(*s, f.overrides)
	return &own
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
