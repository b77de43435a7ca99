package dash

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/textcut"
	"github.com/limitctl/limitctl/pkg/limiter/store"
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
	sinceColumn
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
	cell func(r *row, now time.Time, width int) line

	name      columnName
	width, at int // once fitted; a width of 0 is not shown
}

// gap is between columns.
const gap = 2

// columns are all of them.
func columns() [columnNames]column {
	text := func(get func(r *row) string) func(*row, time.Time, int) line {
		return func(r *row, _ time.Time, _ int) line { return plain(get(r)) }
	}
	return [columnNames]column{
		subjectColumn:   {title: "SUBJECT", order: bySubject},
		limitColumn:     {title: "LIMIT", order: byLimit},
		algorithmColumn: {title: "ALGORITHM", order: -1, cell: text(algorithmOf)},
		deniedColumn:    {title: "DENIED/S", order: byDenied, right: true, cell: deniedCell},
		usedColumn:      {title: "USED", order: byCloseness, cell: barCell},
		ofLimitColumn:   {title: "OF LIMIT", order: byUsed, right: true, cell: ofLimitCell},
		leftColumn:      {title: "LEFT", order: byRemaining, right: true, cell: leftCell},
		rateColumn: {title: "/S", order: byRate, right: true,
			cell: text(func(r *row) string { return shortNumber(r.Rate()) })},
		resetsColumn:   {title: "RESETS", order: byReset, right: true, cell: resetsCell},
		sinceColumn:    {title: "SINCE", order: -1, cell: sinceCell},
		overrideColumn: {title: "OVERRIDE", order: -1, cell: overrideCell},
		historyColumn:  {title: "LAST MIN", order: -1, cell: historyCell},
	}
}

// wish is for a column to have a width.
type wish struct {
	of    columnName
	width int
	grows bool // what there is room for of it is good, too
}

// widestSubject is how much of long subjects is shown before any other column is left out
// for them, and widestDenied how much of those that are denied before there are columns that only add to what they say.
const (
	widestSubject = 60
	widestDenied  = 100
)

// wishes are for the widths of columns, the most important first. What a subject in sight needs to be
// read comes before what only repeats other columns in another way.
func (n *needs) wishes(denialsKnown bool) []wish {
	limit, since := n.limit, 0
	if n.hottest.columns > leastSubject { // else nobody in sight is denied
		since = 5
	}
	all := []wish{
		{of: subjectColumn, width: 8}, {of: deniedColumn, width: 9}, {subjectColumn, n.denied.columns, true},
		{of: sinceColumn, width: since}, {of: ofLimitColumn, width: 9}, {subjectColumn, 12, true}, {ofLimitColumn, 11, true},
		{of: resetsColumn, width: 7}, {subjectColumn, min(n.hottest.columns, widestDenied), true},
		{subjectColumn, min(n.usual.columns, widestSubject), true}, {of: rateColumn, width: 5}, {of: sinceColumn, width: 5},
		{of: overrideColumn, width: min(n.effect, 11)},
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
		case (w.of == deniedColumn || w.of == sinceColumn) && !denialsKnown, w.of == overrideColumn && n.effect == 0:
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
		if more <= 0 {
			continue
		}
		if widths[w.of] == 0 {
			more += gap
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

// fitted returns the columns that are shown where there are that many columns of a terminal.
func (n *needs) fitted(width int, denialsKnown bool) []column {
	all, widths := columns(), allot(width, n.wishes(denialsKnown))
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

// defectSign marks rows with a defect.
const defectSign = "!"

// signOf is what stands before a row's subject.
func signOf(r *row) span {
	switch {
	case r.Stale:
		return span{"?", output.AtEnd}
	case r.IsStuck():
		return span{defectSign, output.AtEnd}
	case len(r.Defects) > 0:
		return span{defectSign, output.Near}
	case r.Override == nil: // a colour would show in the selected row, which is reversed
		return span{" ", output.Plain}
	}
	return span{overrideSign(r.Override), output.Near}
}

// closeness is the colour of a share of a limit: calm, near, or at it.
func closeness(r *row) output.Style {
	switch {
	case !r.InUse:
		return output.Faint
	case r.IsUnknown():
		return output.Plain
	case r.IsAtLimit():
		return full
	}
	return shareStyle(r.UsedShare())
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
func deniedCell(r *row, now time.Time, width int) line {
	rate := r.DeniedRate()
	if rate == 0 {
		return plain("-")
	}
	text := shortNumber(rate)
	if text == "0" {
		text = "<0.1"
	}
	const withPercent = 12
	if width >= withPercent {
		text = pad(text, 5, true) + " " + pad(r.PercentDenied(), 4, true)
	}
	if !r.IsDenied(now) {
		return styled(text, output.Near)
	}
	if r.IsUnderBlock() {
		return styled(blockSign+" "+text, output.Near)
	}
	return styled(deniedSign+" "+text, denying)
}

// sinceCell is when the key began to be denied, without a pause.
func sinceCell(r *row, now time.Time, _ int) line {
	if r.Denial == nil || r.Denial.Since.IsZero() {
		return plain("-")
	}
	return plain(until(r.Denial.Since, now))
}

// historyCell is the last minute: how often a denied key was denied, as what is used of it is always all; of others
// what is used.
func historyCell(r *row, now time.Time, width int) line {
	if r.Denial == nil || r.Denial.Counts.Values == nil {
		return sparks(r.Shares.Columns(now, 60, width), 1, shareStyle)
	}
	values := r.Denial.Counts.Columns(now, 60, width)
	return sparks(values, greatest(values, 0), func(float32) output.Style { return output.AtEnd })
}

// deniedSign marks what is being denied.
const deniedSign = "✗"

func barCell(r *row, _ time.Time, width int) line {
	if !r.RemainingKnown() {
		return nil
	}
	return styled(output.Bar(r.Used, r.Limit.Capacity(), width), closeness(r))
}

func ofLimitCell(r *row, _ time.Time, width int) line {
	switch {
	case !r.Found():
		return plain("-")
	case !r.RemainingKnown():
		return styled(usedOf(r), closeness(r))
	}
	text := output.Thousands(r.Used) + "/" + output.Thousands(r.Limit.Capacity())
	if len(text) > width {
		text = shortNumber(float64(r.Used)) + "/" + shortNumber(float64(r.Limit.Capacity()))
	}
	return styled(text, closeness(r))
}

func leftCell(r *row, _ time.Time, width int) line {
	if r.IsUnknown() {
		return plain("?")
	}
	text := output.Thousands(r.Remaining)
	if len(text) > width {
		text = shortNumber(float64(r.Remaining))
	}
	return plain(text)
}

func resetsCell(r *row, _ time.Time, _ int) line {
	switch {
	case r.InUse && r.TTL < 0 && !r.KeptOnPurpose():
		return styled("no TTL", output.Near)
	case r.InUse && r.AtLimit():
		if !r.RetryKnown() {
			return styled("+?", full)
		}
		return styled("+"+seconds(r.RetryAfter), full)
	case r.InUse && !r.ResetKnown():
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

// leastSubject is the least that subjects need, with the arrow of the header.
const leastSubject = len("SUBJECT") + 1

// markWidth is the column of the cursor and of marks.
const markWidth = 3

// needs are the columns that the names of the listed rows take.
type needs struct {
	// Of the subjects in sight that are denied by a limit: what the widest takes that is always shown whole, and what the
	// widest takes. Of all in sight: what nine in ten take, and then the same.
	denied, hottest, usual, whole, longest need
	limit                                  int // the widest name
	// effect is of the widest effect of an override, and ending with its end; 0 if no row is under one.
	effect, ending int
}

// need is a number of columns. It shrinks when fewer were enough for a while, so that the columns do not jump
// with each row that comes and goes.
type need struct {
	columns int
	at      time.Time // when that many were needed last
}

func (n *need) take(columns int, now time.Time, atOnce bool) {
	if atOnce || columns >= n.columns || now.Sub(n.at) > lately*time.Second {
		*n = need{columns, now}
	}
}

// names are the texts that tell the rows in sight apart.
type names struct {
	subjectPrefix, limitPrefix string // that all have in common, and that are left out
	subjects, limits           []string
	// joined says which of the subjects have the name of the limit behind them.
	joined []bool
}

// tell cuts the names of rows to the columns that there are, so that no two rows look the
// same. Unless the names of limits are shown whole, they go behind a subject that several rows
// have, and names that are the same but for attributes always do.
func tell(rows []*row, shown []column) (n names) {
	if len(rows) == 0 {
		return n
	}
	var widths [columnNames]int
	for i := range shown {
		widths[shown[i].name] = shown[i].width
	}
	limitsWhole := true
	bySubject, byBoth, byKey := map[string]int{}, map[store.Key]int{}, map[store.Key]int{}
	for _, r := range rows {
		limitsWhole = limitsWhole && r.LimitWidth <= widths[limitColumn]
		bySubject[r.Key.Subject]++
		byBoth[store.Key{Subject: r.Key.Subject, Name: r.LimitName()}]++
		byKey[r.Key]++
	}
	subjects, limits := make([]string, len(rows)), make([]string, len(rows))
	n.joined = make([]bool, len(rows))
	for i, r := range rows {
		subjects[i], limits[i] = output.Printable(r.Key.Subject), output.Printable(r.LimitName())
		switch n.joined[i] = true; {
		case byKey[r.Key] > 1: // then they are of another limiter
			subjects[i] = output.Printable(r.StoreKey)
		case byBoth[store.Key{Subject: r.Key.Subject, Name: r.LimitName()}] > 1:
			subjects[i] += " " + output.Printable(r.Key.Name)
		case bySubject[r.Key.Subject] > 1 && !limitsWhole:
			subjects[i] += " " + limits[i]
		default:
			n.joined[i] = false
		}
	}
	n.subjectPrefix, n.subjects = textcut.Distinct(subjects, widths[subjectColumn])
	if widths[limitColumn] > 0 {
		n.limitPrefix, n.limits = textcut.Distinct(limits, widths[limitColumn])
	}
	return n
}

// prefixTitle is the header of a column whose texts have lost the beginning that they have
// in common: as much of its end as there is room for.
func prefixTitle(title, prefix string, columns int) string {
	if prefix == "" {
		return title
	}
	end := prefix + "…"
	for width(end) > columns {
		_, size := utf8.DecodeRuneInString(strings.TrimPrefix(end, "…"))
		if end = "…" + strings.TrimPrefix(end, "…")[size:]; len(end) < len("…:a…") {
			return title
		}
	}
	return end
}

func cursorMark(selected bool) string {
	if selected {
		return "▸"
	}
	return " "
}

func overrideCell(r *row, now time.Time, width int) line {
	if r.Override == nil {
		return nil
	}
	effect, end := overrideTexts(r.Override, now)
	if len([]rune(effect+end)) > width {
		end = ""
	}
	return styled(effect+end, output.Near)
}
