package dash

import (
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// columnName says which column of the list of keys it is, in the order that they are shown.
type columnName int

const (
	subjectColumn columnName = iota
	limitColumn
	algorithmColumn
	deniedColumn
	usedColumn
	ofLimitColumn
	leftColumn
	rateColumn
	resetsColumn
	overrideColumn
	historyColumn
	columnNames // how many there are
)

// column is one of the list of keys.
type column struct {
	title string
	order order // that a click on the header sorts by; -1 for none
	right bool
	// cell draws a row's cell; nil for texts, which are cut so that rows differ.
	cell func(m *model, r *row, width int) line

	name      columnName
	width, at int // once fitted; a width of 0 is not shown
}

// gap is between columns.
const gap = 2

// columns are all of them.
func columns() [columnNames]column {
	text := func(get func(r *row) string) func(*model, *row, int) line {
		return func(_ *model, r *row, _ int) line { return plain(get(r)) }
	}
	return [columnNames]column{
		subjectColumn:   {title: "SUBJECT", order: bySubject},
		limitColumn:     {title: "LIMIT", order: byLimit},
		algorithmColumn: {title: "ALGORITHM", order: -1, cell: text(algorithmOf)},
		deniedColumn:    {title: "DENIED/S", order: byDenied, right: true, cell: deniedCell},
		usedColumn:      {title: "USED", order: byCloseness, cell: barCell},
		ofLimitColumn:   {title: "OF LIMIT", order: byUsed, right: true, cell: ofLimitCell},
		leftColumn:      {title: "LEFT", order: byRemaining, right: true, cell: leftCell},
		rateColumn:      {title: "/S", order: byRate, right: true, cell: text(func(r *row) string { return short(r.rate()) })},
		resetsColumn:    {title: "RESETS", order: byReset, right: true, cell: resetsCell},
		overrideColumn:  {title: "OVERRIDE", order: -1, cell: overrideCell},
		historyColumn: {title: "LAST MIN", order: -1, cell: func(m *model, r *row, width int) line {
			return sparks(r.shares.columns(m.now, 60, width), 1, shareStyle)
		}},
	}
}

// wish is for a column to have a width.
type wish struct {
	of    columnName
	width int
	grows bool // what there is room for of it is good, too
}

// widestSubject is how much of long subjects is shown before any other column is left out
// for them.
const widestSubject = 60

// wishes are for the widths of columns, the most important first. What a subject in sight needs to be
// read comes before what only repeats other columns in another way.
func (m *model) wishes() []wish {
	n := &m.keys.needs
	limit := n.limit
	all := []wish{
		{of: subjectColumn, width: 8}, {of: ofLimitColumn, width: 9}, {of: deniedColumn, width: 9},
		{subjectColumn, 12, true}, {ofLimitColumn, 11, true}, {of: resetsColumn, width: 7},
		{subjectColumn, min(n.denied.columns, widestSubject), true}, {of: rateColumn, width: 5},
		{subjectColumn, min(n.usual.columns, widestSubject), true}, {of: overrideColumn, width: min(n.effect, 11)},
		{of: limitColumn, width: 8}, {limitColumn, min(limit, 12), true}, {subjectColumn, n.whole.columns, true},
		{of: usedColumn, width: 6}, {limitColumn, limit, true},
		{of: leftColumn, width: 5}, {of: historyColumn, width: 8}, {deniedColumn, 12, true}, {overrideColumn, min(n.ending, 20), true},
		{of: algorithmColumn, width: 15}, {usedColumn, 12, true}, {historyColumn, 16, true}, {subjectColumn, n.longest.columns, true},
		{leftColumn, 9, true}, {rateColumn, 6, true}, {resetsColumn, 9, true}, {ofLimitColumn, 15, true}, {usedColumn, 20, true},
		{historyColumn, 60, true},
	}
	wanted := all[:0]
	for _, w := range all {
		switch {
		case w.of == deniedColumn && !m.feed.denials.known, w.of == overrideColumn && n.effect == 0:
		default:
			wanted = append(wanted, w)
		}
	}
	return wanted
}

// allot gives columns their widths, wish by wish, to the first that there is no room for. So
// a wider terminal never shows less. A column of width 0 is not shown.
func allot(columns int, wishes []wish) (widths [columnNames]int) {
	room := columns - markWidth + gap
	for _, w := range wishes {
		more := w.width - widths[w.of]
		if widths[w.of] == 0 {
			more += gap
		}
		if more <= 0 {
			continue
		}
		if more > room {
			if w.grows && widths[w.of] > 0 {
				widths[w.of] += room
			}
			break
		}
		widths[w.of] = w.width
		room -= more
	}
	if widths[subjectColumn] == 0 {
		widths[subjectColumn] = max(1, columns-markWidth)
	}
	return widths
}

// fit returns the columns of the list of keys that are shown.
func (m *model) fit() []column {
	all, widths := columns(), allot(m.width, m.wishes())
	shown := make([]column, 0, len(all))
	at := markWidth
	for i := range all {
		if c := all[i]; widths[i] > 0 {
			c.at, c.name, c.width = at, columnName(i), widths[i]
			at += c.width + gap
			shown = append(shown, c)
		}
	}
	return shown
}

func algorithmOf(r *row) string {
	if r.Limit.Algorithm == 0 {
		return ""
	}
	return r.Limit.Algorithm.String()
}

// deniedCell is how often a second the key is denied, and where there is room how much of
// what is asked. It has a sign while the key is being denied, which a key at its limit has
// not.
func deniedCell(m *model, r *row, width int) line {
	rate := r.deniedRate()
	if rate == 0 {
		return plain("-")
	}
	text := short(rate)
	if text == "0" {
		text = "<0.1"
	}
	const withPercent = 12
	if width >= withPercent {
		text = pad(text, 5, true) + " " + pad(r.percentDenied(), 4, true)
	}
	if !r.isDenied(m.now) {
		return styled(text, output.AtEnd)
	}
	if r.isBlocked() {
		return styled(blockSign+" "+text, output.Near)
	}
	return styled(deniedSign+" "+text, reversed+";"+output.AtEnd)
}

// deniedSign marks what is being denied.
const deniedSign = "✗"

func barCell(_ *model, r *row, width int) line {
	if !r.RemainingKnown() {
		return nil
	}
	return styled(output.Bar(r.Used, r.Limit.Capacity(), width), closeness(r))
}

func ofLimitCell(_ *model, r *row, width int) line {
	switch {
	case !r.found():
		return plain("-")
	case !r.RemainingKnown():
		return styled(usedOf(r), closeness(r))
	}
	text := output.Thousands(r.Used) + "/" + output.Thousands(r.Limit.Capacity())
	if len(text) > width {
		text = short(float64(r.Used)) + "/" + short(float64(r.Limit.Capacity()))
	}
	return styled(text, closeness(r))
}

func leftCell(_ *model, r *row, width int) line {
	if r.isUnknown() {
		return plain("?")
	}
	text := output.Thousands(r.Remaining)
	if len(text) > width {
		text = short(float64(r.Remaining))
	}
	return plain(text)
}

func resetsCell(_ *model, r *row, _ int) line {
	switch {
	case r.inUse && r.TTL < 0 && !r.KeptOnPurpose():
		return styled("no TTL", output.Near)
	case r.inUse && r.atLimit():
		if !r.RetryKnown() {
			return styled("+?", output.AtEnd)
		}
		return styled("+"+seconds(r.RetryAfter), output.AtEnd)
	case r.inUse && !r.ResetKnown():
		return plain("?")
	}
	return plain(seconds(r.ResetAfter))
}

// usedOf is what is used of the limit, with a question mark for what is not known.
func usedOf(r *row) string {
	used, capacity := "?", "?"
	if r.UsedKnown() {
		used = output.Thousands(r.Used)
	}
	if r.CapacityKnown() {
		capacity = output.Thousands(r.Limit.Capacity())
	}
	return used + "/" + capacity
}
