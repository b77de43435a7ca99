package list

import (
	"strings"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/internal/textcut"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The columns, in their order.
const (
	markColumn = iota
	subjectColumn
	limitColumn
	deniedColumn
	usedColumn
	retryColumn
	resetsColumn
)

const (
	deniedWidth = 9  // of the number; the last minute of it is drawn beside it
	narrow      = 80 // a terminal with fewer columns has only those that matter most
	wide        = 100
	widest      = 160
)

// layout is how wide everything is, and draws rows.
type layout struct {
	*Model
	columns     []ui.Column
	bar, figure int     // of USED; there can be no bar
	spark       int     // of DENIED/S; 0 for none
	most        float32 // denials of any row in sight in a part of the minute
}

// needs are the columns that subjects, limits and figures take.
func (m *Model) needs() (subject, limit, figure int) {
	const most = 60 // no row makes the column wider than that, unless it is denied
	subject, limit, figure = 12, 8, 5
	for _, r := range m.feed.Listed {
		wanted := r.SubjectWidth
		if r.DeniedRate() == 0 && !m.Still {
			wanted = min(wanted, most)
		}
		subject, limit = max(subject, wanted), max(limit, r.LimitWidth+ui.TextWidth(effect(r)))
		figure = max(figure, len(live.UsedOf(r)))
	}
	return subject, limit, figure
}

// layout fits the columns into a width. Names come before bars, and what is left draws the last minute.
func (m *Model) layout(width int) layout {
	subject, limit, figure := m.needs()
	l := layout{Model: m, figure: min(figure, 9)}
	switch {
	case width >= widest:
		l.bar, l.figure = 20, min(figure, 13)
	case width >= wide:
		l.bar, l.figure = 10, min(figure, 11)
	}
	l.columns = []ui.Column{{Width: ui.Mark}, {Title: "SUBJECT"}, {Title: "LIMIT"},
		{Title: "DENIED/S", Width: deniedWidth, Right: true}, {Title: "USED", Width: l.figure, Right: true},
		{Title: "RETRY", Width: 6, Right: true}, {Title: "RESETS", Width: 7, Right: true}}
	if width < narrow {
		l.columns[retryColumn].Width, l.columns[resetsColumn].Width = 0, 0
		ui.Grow(l.columns, subjectColumn, width, 1)
		return l
	}
	bars := func(columns int) {
		l.bar = columns
		l.columns[usedColumn].Width, l.columns[usedColumn].Right = columns+1+l.figure, false
	}
	if l.bar > 0 {
		bars(l.bar)
	}
	const between = 2
	room, leastLimit := width-ui.Taken(l.columns)-between, 9
	if width >= wide {
		leastLimit = room / 3
	}
	limit = min(limit, max(room-subject, leastLimit))
	subject = max(1, min(subject, room-limit))
	l.columns[subjectColumn].Width, l.columns[limitColumn].Width = subject, limit
	left := room - limit - subject - 1
	if small := 6; l.bar == 0 && left > small+1 {
		bars(small)
		left -= small + 2
	}
	if least, most := 8, 60; left >= least && !m.Still {
		l.spark = min(left-1, most)
		l.columns[deniedColumn].Width, l.columns[deniedColumn].Right = deniedWidth+1+l.spark, false
	}
	return l
}

var sortedBy = [live.Orders]int{deniedColumn, usedColumn, resetsColumn, subjectColumn, limitColumn}

func (m *Model) rows(rows []*live.Row, width int) []string {
	l := m.layout(width)
	order := m.feed.Order
	if order == live.ByDenied && !m.feed.Denials.Known {
		order = live.ByCloseness // which it comes down to
	}
	prefix, subjects, limits := names(rows, &l)
	l.columns[sortedBy[order]].Title += "▾"
	if prefix != "" {
		title := &l.columns[subjectColumn]
		title.Title = ui.CutMiddle(title.Title+" "+prefix+"…", title.Width)
	}
	for _, r := range rows {
		if l.spark > 0 && r.DeniedRate() > 0 {
			l.most = ui.Greatest(r.Denial.Counts.Columns(m.feed.Clock, l.spark), l.most)
		}
	}
	cells := make([][]string, len(rows))
	for i, r := range rows {
		selected := m.Top+i == m.Cursor && !m.Still
		cells[i] = l.cells(r, subjects[i], limits[i], selected)
	}
	return m.theme.Lines(l.columns, cells)
}

// names are the texts that tell rows apart, cut to their columns, and what all subjects begin with, which is left out.
func names(rows []*live.Row, l *layout) (prefix string, subjects, limits []string) {
	alike := map[store.Key]int{} // by the subject, and with the limit's name
	for _, r := range rows {
		alike[store.Key{Subject: r.Key.Subject}]++
		alike[store.Key{Subject: r.Key.Subject, Name: r.LimitName}]++
	}
	subjects, limits = make([]string, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		subjects[i], limits[i] = output.Printable(subjecttext.Readable(r.Key.Subject)), output.Printable(r.LimitName)
		if alike[store.Key{Subject: r.Key.Subject, Name: r.LimitName}] > 1 {
			limits[i] = output.Printable(r.Key.Name)
		}
		if alike[store.Key{Subject: r.Key.Subject}] > 1 && l.columns[limitColumn].Width == 0 {
			subjects[i] += " " + limits[i]
		}
	}
	prefix, subjects = textcut.Distinct(subjects, l.columns[subjectColumn].Width)
	if columns := l.columns[limitColumn].Width; columns > 0 {
		whole := map[string]string{} // the names of limits without their policy; "" for what several are called
		for _, r := range rows {
			if known, is := whole[r.Bare]; is && known != r.LimitName {
				whole[r.Bare] = ""
			} else {
				whole[r.Bare] = r.LimitName
			}
		}
		for i, r := range rows {
			if ui.TextWidth(limits[i]+effect(r)) > columns && limits[i] == output.Printable(whole[r.Bare]) {
				limits[i] = output.Printable(r.Bare)
			}
			limits[i] = output.Escape(limits[i])
		}
		_, limits = textcut.Distinct(limits, columns)
		for i, r := range rows { // what an override does is never cut
			if e := effect(r); e != "" {
				limits[i] = ui.CutMiddle(limits[i], max(1, columns-ui.TextWidth(e))) + e
			}
		}
	}
	return prefix, subjects, limits
}

func effect(r *live.Row) string {
	if r.Override == nil {
		return ""
	}
	return " " + allowance.Effect(r.Override)
}

func (l *layout) cells(r *live.Row, subject, limit string, selected bool) []string {
	t := l.theme
	named, figures, limited, share := t.Plain, t.Plain, t.Plain, t.Share(r.UsedShare())
	if r.AtLimit() {
		share = t.Full
	}
	if r.Override != nil {
		limited = t.Near
	}
	if r.Stale || !r.InUse && r.DeniedRate() == 0 {
		named, figures, limited, share = t.Faint, t.Faint, t.Faint, t.Faint
	}
	cursor, sign := " ", " "
	if selected {
		cursor, named = ">", t.Accent
	}
	if r.Stale {
		sign = t.Near.Of("?")
	}
	retry, resets := "-", figures.Of(ui.Seconds(r.ResetAfter))
	if r.InUse && r.AtLimit() {
		retry = ui.Seconds(r.RetryAfter)
	}
	if r.InUse && r.TTL < 0 {
		resets = t.Near.Of("no TTL")
	}
	return []string{t.Accent.Of(cursor) + sign, named.Of(subject), limited.Of(limit), l.denied(r, figures),
		l.used(r, share), figures.Of(retry), resets}
}

// denied is how often a second the key is denied, and the last minute of that. What nobody counts is not 0.
func (l *layout) denied(r *live.Row, figures ui.Style) string {
	rate := r.DeniedRate()
	if rate == 0 {
		unknown := l.feed.NotCounted || l.feed.Denials.Problem != nil
		return ui.PadLeft(l.theme.Faint.Of(map[bool]string{true: "?", false: "-"}[unknown]), deniedWidth)
	}
	if r.IsDenied(l.feed.Clock) {
		figures = l.theme.Denied
	}
	text := ui.PadLeft(figures.Of(ui.Rate(rate)), deniedWidth)
	if l.spark > 0 {
		text += " " + figures.Of(ui.Sparks(r.Denial.Counts.Columns(l.feed.Clock, l.spark), l.most))
	}
	return text
}

func (l *layout) used(r *live.Row, style ui.Style) string {
	text, bar := "-", ""
	if r.Found() {
		text = live.UsedOf(r)
	}
	if r.Found() && ui.Width(text) > l.figure {
		text = ui.Number(float64(r.Used)) + "/" + ui.Number(float64(r.Limit.Capacity()))
	}
	if l.bar > 0 {
		if r.Used > 0 {
			blocks := output.Bar(r.Used, r.Limit.Capacity(), l.bar)
			bar = style.Of(strings.NewReplacer("█", "━", "░", " ").Replace(blocks))
		}
		bar = ui.Pad(bar, l.bar+1)
	}
	return bar + ui.PadLeft(style.Of(text), l.figure)
}
