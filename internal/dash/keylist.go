package dash

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/bubbles/cursor"
	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/textcut"
)

// keyList is the screen that lists keys.
type keyList struct {
	order    order
	reversed bool
	rows     []*row // those that are listed, in order

	// blocked is the place of the first row that a block denies, if these are in a group of their own at the end.
	// It is len(rows) if there is none.
	blocked     int
	cursor, top int
	selected    ID
	moved       bool // the cursor stays with the selected key
	marked      map[ID]bool

	offenders []offender // what many rows have in common
	common    int        // the line of offenders that the cursor is on, from 1; 0 if it is on a row
	needs     needs      // columns
	changed   bool       // by a key or a click, so the columns are fitted anew
}

// arrange lists the rows that are to be shown. Rows that are equal in the order keep
// their places.
func (l *keyList) arrange(m *model) {
	rules := m.rules()
	var all tally
	before := l.rows
	rows := make([]*row, len(before), len(m.feed.rows)+len(before))
	for _, r := range m.feed.rows {
		if !m.selects(r) {
			continue
		}
		r.Override = rules.Override(r.Key)
		r.Place()
		all.add(r)
		switch {
		case !l.shows(m, r):
		case r.Listed < len(before) && before[r.Listed] == r: // most stay in their order, which makes sorting quick
			rows[r.Listed] = r
		default:
			rows = append(rows, r)
		}
	}
	m.feed.tally = all
	l.rows = slices.DeleteFunc(rows, func(r *row) bool { return r == nil })
	slices.SortFunc(l.rows, func(a, b *row) int {
		if c := l.order.Compare(a, b); c != 0 {
			if l.reversed {
				return -c
			}
			return c
		}
		return compareIDs(a.ID(), b.ID())
	})
	for i, r := range l.rows {
		r.Listed = i
	}
	l.offenders = offendersOf(l.rows)
	l.common = min(l.common, len(l.inCommon(m)))
	l.blocked = len(l.rows)
	if l.order <= byCloseness && !l.reversed {
		if i := slices.IndexFunc(l.rows, (*row).IsSunk); i >= 0 {
			l.blocked = i
		}
	}
}

// height is how many rows are in sight. The group of blocked ones has a line above it.
func (l *keyList) height(m *model) int {
	if l.blocked < len(l.rows) {
		return max(1, m.listHeight()-1)
	}
	return m.listHeight()
}

// blockedLine is above the rows that are blocked.
func (l *keyList) blockedLine() line {
	return styled("   blocked by an operator: "+output.Plural(len(l.rows)-l.blocked, "key")+" (O lists the blocks)", output.Faint)
}

// shows reports whether a row that is selected is among those that were asked for.
func (l *keyList) shows(m *model, r *row) bool {
	if r.Updated.IsZero() && m.Query.Keys != nil { // it was named, and not found yet
		return false
	}
	return m.filter.Matches(r)
}

// follow keeps the cursor with its key, and in sight.
func (l *keyList) follow(m *model) {
	if l.moved {
		if i := slices.IndexFunc(l.rows, func(r *row) bool { return r.ID() == l.selected }); i >= 0 {
			l.cursor = i
		}
	}
	l.moveTo(m, l.cursor, l.moved)
}

// moveTo puts the cursor on a row. If moved is true, it stays with that row's key.
func (l *keyList) moveTo(m *model, i int, moved bool) {
	l.cursor = max(0, min(i, len(l.rows)-1))
	l.moved = moved
	if r := l.current(); r != nil {
		l.selected = r.ID()
	}
	l.top = scrolled(l.top, l.cursor, len(l.rows), l.height(m))
	l.measure(m)
	if m.isBeside() {
		m.detail.follow(l.current())
	}
}

// scrolled returns the first row of a list that is in sight, so that the cursor is in
// sight and the list moves no further than it must.
func scrolled(top, cursor, rows, height int) int {
	height = max(1, height)
	top = max(min(top, cursor), cursor-height+1)
	return max(0, min(top, rows-height))
}

// inCommon are the offenders that are shown above the rows.
func (l *keyList) inCommon(m *model) []offender {
	if !m.listsKeys() || m.height < 20 {
		return nil
	}
	return l.offenders
}

// current returns the row under the cursor, or nil.
func (l *keyList) current() *row {
	if l.common == 0 && l.cursor < len(l.rows) {
		return l.rows[l.cursor]
	}
	return nil
}

// move moves the cursor. Above the first row it goes to what rows have in common.
func (l *keyList) move(m *model, by int) {
	shown := len(l.inCommon(m))
	switch {
	case l.common > 0:
		if l.common = max(1, l.common+by); l.common > shown {
			l.common = 0
		}
	case by == -1 && l.cursor == 0:
		l.common = shown
	default:
		l.moveTo(m, l.cursor+by, true)
	}
}

// enter shows everything about the key under the cursor, or only the keys that have in common what it is on.
func (l *keyList) enter(m *model) tea.Cmd {
	if l.common > 0 {
		m.filter.filter, l.common = l.offenders[l.common-1].Filter(), 0
		m.arrange()
		return m.searchStore()
	}
	r := l.current()
	if r == nil || m.isBeside() {
		return nil
	}
	l.moveTo(m, l.cursor, true)
	m.detail = detailView{key: r.ID()}
	m.show(&m.detail)
	return m.look()
}

// click sorts by the column of the header, or selects a row. A second click opens it.
func (l *keyList) click(m *model, x, line int) tea.Cmd {
	if line == 0 {
		for _, c := range l.fitted(m) {
			if x >= c.at && x < c.at+c.width && c.order >= 0 {
				if c.order == l.order {
					return m.turnOrder()
				}
				return m.sortBy(c.order)
			}
		}
		return nil
	}
	i := l.top + line - 1
	if i > l.blocked {
		i--
	} else if i == l.blocked && i < len(l.rows) {
		return nil // the line above the blocked ones
	}
	switch {
	case line < 1 || line > m.listHeight() || i >= len(l.rows):
		return nil
	case i == l.cursor && l.moved && l.common == 0:
		return l.enter(m)
	}
	l.common = 0
	l.moveTo(m, i, true)
	return nil
}

func (l *keyList) hints(m *model) string {
	if l.common > 0 {
		return "enter filter by it"
	}
	hints := "enter detail  / filter  s sort"
	if m.mayChange() {
		if hints += "  r reset"; !m.isOthers() {
			hints += "  o override"
		}
	}
	return hints
}

func (m *model) nextOrder() tea.Cmd { return m.sortBy((m.keys.order + 1) % orders) }

func (m *model) turnOrder() tea.Cmd {
	m.keys.reversed = !m.keys.reversed
	m.arrange()
	return nil
}

func (m *model) sortBy(o order) tea.Cmd {
	m.keys.order, m.keys.reversed = o, false
	m.arrange()
	m.say("sorted by " + o.String())
	return nil
}

// mark marks the key under the cursor or takes its mark away, and goes to the next one.
func (m *model) mark() tea.Cmd {
	l := &m.keys
	if r := l.current(); r != nil {
		if l.marked[r.ID()] {
			delete(l.marked, r.ID())
		} else {
			l.marked[r.ID()] = true
		}
		l.move(m, 1)
	}
	return nil
}

// inSight are the rows that are drawn.
func (l *keyList) inSight(m *model) []*row {
	return l.rows[l.top:min(l.top+l.height(m), len(l.rows))]
}

// measure finds out what the rows need.
func (l *keyList) measure(m *model) {
	n := &l.needs
	n.limit, n.effect, n.ending = len("LIMIT")+1, 0, 0
	for _, r := range l.rows {
		n.limit = max(n.limit, r.LimitWidth)
		if r.Override != nil {
			effect, end := overrideTexts(r.Override, m.now)
			n.effect, n.ending = max(n.effect, width(effect), len("OVERRIDE")), max(n.ending, width(effect+end))
		}
	}
	widths, denied, hottest, whole := []int{leastSubject}, leastSubject, leastSubject, leastSubject
	for _, r := range l.inSight(m) {
		widths = append(widths, r.SubjectWidth)
		if r.DeniedRate() > 0 && !r.IsUnderBlock() {
			if hottest = max(hottest, r.SubjectWidth); r.SubjectWidth <= widestSubject {
				denied = max(denied, r.SubjectWidth)
			}
		}
		if r.SubjectWidth <= widestSubject {
			whole = max(whole, r.SubjectWidth)
		}
	}
	slices.Sort(widths)
	last := len(widths) - 1
	n.denied.take(denied, m.now, l.changed)
	n.hottest.take(hottest, m.now, l.changed)
	n.usual.take(widths[(last*9+9)/10], m.now, l.changed)
	n.whole.take(whole, m.now, l.changed)
	n.longest.take(widths[last], m.now, l.changed)
	l.changed = false
}

// fitted are the columns that are shown.
func (l *keyList) fitted(m *model) []column {
	return l.needs.fitted(m.listWidth(), m.feed.denials.Known)
}

// lines are the header and the rows in sight.
func (l *keyList) lines(m *model) []line {
	fitted := l.fitted(m)
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
		if l.top+i == l.blocked {
			lines = append(lines, l.blockedLine())
		}
		lines = append(lines, m.keyLine(r, fitted, &names, i, l.top+i == l.cursor && l.common == 0 && !m.still))
	}
	return lines
}

// arrow marks the header of the column that the list is sorted by, "" if it is another.
func (l *keyList) arrow(m *model, of order) string {
	sorted := l.order
	if sorted == byDenied && !m.feed.denials.Known {
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
	if m.keys.marked[r.ID()] {
		mark = "●"
	}
	sign := signOf(r)
	l := line{{cursorMark(selected) + mark, bold}, sign}
	for n, c := range fitted {
		var cell line
		switch c.name {
		case subjectColumn:
			cell = plain(names.subjects[i])
		case limitColumn:
			cell = plain(names.limits[i])
		default:
			cell = c.cell(r, m.now, c.width)
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
	if r.Stale || !r.InUse && r.DeniedRate() == 0 {
		for i := range l {
			if l[i] != sign || !r.Stale {
				l[i].style = output.Faint
			}
		}
	}
	if selected {
		return l.reverse(m.listWidth())
	}
	return l
}

// nothing says why a list is empty.
func (m *model) nothing() string {
	switch {
	case m.filter.Text != "" && m.foundText() != "" && !m.feed.search.whole:
		return "none that is followed matches; looking in the store…"
	case m.filter.Text != "" && len(m.feed.rows) > 0:
		return "none matches; esc ends the filter"
	case m.isScanning():
		return "looking for keys…"
	}
	return "nothing in use matches " + m.Selection
}

// filterLine is the filter of the lists, and the line that it is typed in.
type filterLine struct {
	filter
	editing bool
	before  string // the filter's text before it was edited
	input   textinput.Model
}

// newInput returns a line to type in that needs nothing but keys.
func newInput() textinput.Model {
	input := textinput.New()
	input.Cursor.SetMode(cursor.CursorStatic)
	input.KeyMap.Paste.SetEnabled(false) // terminals paste by themselves
	return input
}

// editFilter lets one type a filter, which applies while it is typed.
func (m *model) editFilter() tea.Cmd {
	f := &m.filter
	f.editing, f.before = true, f.Text
	f.input.SetValue(f.Text)
	f.input.CursorEnd()
	f.input.Focus()
	return nil
}

func (m *model) typeFilter(msg tea.KeyMsg) tea.Cmd {
	f := &m.filter
	switch msg.Type {
	case tea.KeyEnter:
		f.editing = false
		f.input.Blur()
		return m.searchStore()
	case tea.KeyEsc:
		f.editing = false
		f.input.Blur()
		m.useFilter(f.before)
		return nil
	case tea.KeyUp:
		return m.move(-1)
	case tea.KeyDown:
		return m.move(1)
	}
	f.input, _ = f.input.Update(msg)
	m.useFilter(f.input.Value())
	return nil
}

// useFilter applies a filter. A filter that cannot be read leaves the last one as it is.
func (m *model) useFilter(text string) {
	parsed, err := parseFilter(text)
	if err != nil {
		m.complain(err)
		return
	}
	m.note = note{}
	m.filter.filter = parsed
	m.arrange()
}

// search is what the scan that is going on, or was the last, found of a filter.
type search struct {
	text            string // the filter's; empty if there was none
	followed, found int64  // the followed keys that it keeps, when the scan began, and those found since then
	whole           bool   // a scan for the same filter is over, and found total
	total           int64
}

// searchStore looks for the keys of the filter in the whole store, at once, unless all its keys are followed.
func (m *model) searchStore() tea.Cmd {
	isAll := !m.feed.coverage.Full && len(m.feed.rows) < m.MaxKeys
	if isAll || m.paused || m.feed.pass == 0 || m.filter.Text == "" || m.filter.Text == m.feed.search.text {
		return nil
	}
	m.feed.stopScan()
	return m.scan()
}

// filterLines say what is not listed, and how that ends: a list never leaves out keys in silence.
func (m *model) filterLines() []line {
	if !m.listsKeys() || m.filter.Text == "" {
		return nil
	}
	name, ends := "filter /"+m.filter.Text, "; esc ends it"
	counts := ": " + output.Thousands(int64(len(m.keys.rows))) + " of " + output.Thousands(int64(len(m.feed.rows)))
	if m.feed.coverage.Full {
		counts += " followed"
	}
	if store := m.foundText(); store != "" {
		counts = ": " + store + ", " + output.Thousands(int64(len(m.keys.rows))) + " followed"
	}
	const leastName = 12
	if m.width-width(counts)-width(ends) < min(leastName, width(name)) {
		ends = ""
	}
	room := max(8, m.width-width(counts)-width(ends))
	return []line{{{cutMiddle(name, room), bold}, {counts, output.Plain}, {ends, output.Faint}}}
}

// foundText says how many keys of the store the filter keeps, as far as that is known; empty if all keys are followed.
func (m *model) foundText() string {
	s, c := &m.feed.search, &m.feed.coverage
	switch {
	case m.filter.Text == "" || !c.Full && len(m.feed.rows) < m.MaxKeys || m.Query.Keys != nil:
		return ""
	case s.text != m.filter.Text:
		return "not counted in the store yet"
	}
	listed := int64(len(m.keys.rows))
	if s.whole { // what the next scan has found so far says less
		return output.Thousands(max(s.total, listed)) + " in the store"
	}
	n := output.Thousands(max(s.followed+s.found, listed))
	return fmt.Sprintf("≥%s in the store (%d%% scanned)", n, min(99, 100*c.Looked/max(1, c.Total)))
}

// cutMiddle cuts a text to a width where it is least missed.
func cutMiddle(text string, columns int) string {
	text = output.Escape(text)
	if output.Width(text) <= columns {
		return text
	}
	_, cut := textcut.Distinct([]string{text}, columns)
	return cut[0]
}
