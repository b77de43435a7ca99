package dash

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/textcut"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// markWidth is the column of the cursor and of marks.
const markWidth = 3

// needs are the columns that the names of the listed rows take.
type needs struct {
	// Of the subjects in sight: what those take that are denied by a limit, and what nine in ten take; then
	// what the widest takes that can be shown whole, and what the widest of all takes.
	denied, usual, whole, longest need
	limit                         int // the widest name
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

// inSight are the rows that are drawn.
func (l *keyList) inSight(m *model) []*row {
	return l.rows[l.top:min(l.top+m.listHeight(), len(l.rows))]
}

// measure finds out what the rows need.
func (l *keyList) measure(m *model) {
	n := &l.needs
	n.limit, n.effect, n.ending = len("LIMIT")+1, 0, 0
	for _, r := range l.rows {
		n.limit = max(n.limit, r.limitWidth)
		if r.override != nil {
			effect, end := overrideTexts(r.override, m.now)
			n.effect, n.ending = max(n.effect, width(effect), len("OVERRIDE")), max(n.ending, width(effect+end))
		}
	}
	const least = len("SUBJECT") + 1
	widths, denied, whole := []int{least}, least, least
	for _, r := range l.inSight(m) {
		widths = append(widths, r.subjectWidth)
		if r.deniedRate() > 0 && !r.isBlocked() {
			denied = max(denied, r.subjectWidth)
		}
		if r.subjectWidth <= widestSubject {
			whole = max(whole, r.subjectWidth)
		}
	}
	slices.Sort(widths)
	last := len(widths) - 1
	n.denied.take(denied, m.now, l.changed)
	n.usual.take(widths[(last*9+9)/10], m.now, l.changed)
	n.whole.take(whole, m.now, l.changed)
	n.longest.take(widths[last], m.now, l.changed)
	l.changed = false
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
		limitsWhole = limitsWhole && r.limitWidth <= widths[limitColumn]
		bySubject[r.Key.Subject]++
		byBoth[store.Key{Subject: r.Key.Subject, Name: r.limitName()}]++
		byKey[r.Key]++
	}
	subjects, limits := make([]string, len(rows)), make([]string, len(rows))
	n.joined = make([]bool, len(rows))
	for i, r := range rows {
		subjects[i], limits[i] = output.Printable(r.Key.Subject), output.Printable(r.limitName())
		switch n.joined[i] = true; {
		case byKey[r.Key] > 1: // then they are of another limiter
			subjects[i] = output.Printable(r.StoreKey)
		case byBoth[store.Key{Subject: r.Key.Subject, Name: r.limitName()}] > 1:
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

// lines are the header and the rows in sight.
func (l *keyList) lines(m *model) []line {
	fitted := m.fit()
	rows := l.inSight(m)
	names := tell(rows, fitted)
	header := plain(strings.Repeat(" ", markWidth))
	for i, c := range fitted {
		style, arrow := output.Faint, l.arrow(m, c.order)
		if arrow != "" {
			style = bold
		}
		prefix := ""
		switch c.name {
		case subjectColumn:
			prefix = names.subjectPrefix
		case limitColumn:
			prefix = names.limitPrefix
		default:
		}
		title := prefixTitle(c.title, prefix, c.width-len([]rune(arrow))) + arrow
		header = append(header, span{pad(title, c.width, c.right), style})
		if i < len(fitted)-1 {
			header = append(header, span{strings.Repeat(" ", gap), output.Plain})
		}
	}
	lines := []line{header}
	if len(l.rows) == 0 {
		return append(lines, plain(strings.Repeat(" ", markWidth)+m.nothing()))
	}
	for i, r := range rows {
		lines = append(lines, m.keyLine(r, fitted, &names, i, l.top+i == l.cursor && !m.still))
	}
	return lines
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

// arrow marks the header of the column that the list is sorted by, "" if it is another.
func (l *keyList) arrow(m *model, of order) string {
	sorted := l.order
	if sorted == byDenied && !m.feed.denials.known {
		sorted = byCloseness // which it comes down to
	}
	switch {
	case of != sorted:
		return ""
	case l.reversed:
		return "▴"
	}
	return "▾"
}

func (m *model) keyLine(r *row, fitted []column, names *names, i int, selected bool) line {
	mark := " "
	if m.keys.marked[r.id()] {
		mark = "●"
	}
	sign := r.sign()
	l := line{{cursorMark(selected) + mark, bold}, sign}
	for n, c := range fitted {
		var cell line
		switch c.name {
		case subjectColumn:
			cell = plain(names.subjects[i])
		case limitColumn:
			cell = plain(names.limits[i])
		default:
			cell = c.cell(m, r, c.width)
		}
		cell = cell.fit(c.width)
		space := span{strings.Repeat(" ", c.width-cell.width()), output.Plain}
		if c.right {
			l = append(append(l, space), cell...)
		} else {
			l = append(append(l, cell...), space)
		}
		if n < len(fitted)-1 {
			l = append(l, span{strings.Repeat(" ", gap), output.Plain})
		}
	}
	if r.stale || !r.inUse && r.deniedRate() == 0 {
		for i := range l {
			if l[i] != sign || !r.stale {
				l[i].style = output.Faint
			}
		}
	}
	if selected {
		return l.reverse(m.width)
	}
	return l
}

func cursorMark(selected bool) string {
	if selected {
		return "▸"
	}
	return " "
}

// nothing says why a list is empty.
func (m *model) nothing() string {
	switch {
	case m.filter.text != "" && len(m.feed.rows) > 0:
		return fmt.Sprintf("none of the %s matches %s; esc ends the filter", output.Plural(len(m.feed.rows), "key"), m.filter.text)
	case m.feed.coverage.Passes == 0 && m.Query.Keys == nil && m.Play == nil:
		return "looking for keys…"
	}
	return "nothing in use matches " + m.Selection
}
