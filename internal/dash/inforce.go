package dash

import (
	"slices"
	"strings"

	"github.com/charmbracelet/bubbles/table"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/textcut"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// inForceView is the screen that lists the overrides in force.
type inForceView struct {
	table    table.Model
	all      []store.Override // as they are listed, the ones that apply first at the top
	selected string           // the ID of the one under the cursor
}

// newInForceView returns a view whose table adds no styles: the lines are painted as all others are.
func newInForceView() inForceView {
	none := lipgloss.NewStyle()
	return inForceView{table: table.New(table.WithFocused(true),
		table.WithStyles(table.Styles{Header: none.PaddingRight(gap), Cell: none.PaddingRight(gap), Selected: none}))}
}

// toggleInForce shows what is in force, or goes back from it.
func (m *model) toggleInForce() tea.Cmd {
	switch {
	case m.screen == &m.inForce:
		return m.goBack()
	case m.Overrides == nil:
		m.say("this store keeps no overrides")
		return nil
	}
	m.show(&m.inForce)
	m.inForce.arrange(m)
	return nil
}

// arrange lists what is in force now, with the cursor on the override that it was on.
func (v *inForceView) arrange(m *model) {
	v.all = nil
	if list := m.feed.overrides.list; list != nil {
		for _, o := range list.All() {
			if m.now.Before(o.ExpiresAt) {
				v.all = append(v.all, o)
			}
		}
	}
	at := v.table.Cursor()
	if i := slices.IndexFunc(v.all, func(o store.Override) bool { return o.ID == v.selected }); i >= 0 {
		at = i
	}
	v.fill(m)
	v.moveTo(at)
	if o := v.current(); o != nil {
		v.selected = o.ID
	}
}

// current returns the override under the cursor, or nil.
func (v *inForceView) current() *store.Override {
	if i := v.table.Cursor(); i >= 0 && i < len(v.all) {
		return &v.all[i]
	}
	return nil
}

// moveTo sets the cursor. SetCursor of the table would not scroll to it.
func (v *inForceView) moveTo(at int) {
	if by := max(0, min(at, len(v.all)-1)) - v.table.Cursor(); by > 0 {
		v.table.MoveDown(by)
	} else {
		v.table.MoveUp(-by)
	}
}

func (v *inForceView) move(_ *model, by int) {
	v.moveTo(v.table.Cursor() + by)
	if o := v.current(); o != nil {
		v.selected = o.ID
	}
}

func (v *inForceView) click(m *model, _, line int) tea.Cmd {
	first := v.table.Cursor() - slices.IndexFunc(v.lines(m), isUnderCursor) + 1
	switch i := first + line - 1; {
	case line < 1 || i < 0 || i >= len(v.all):
	case i == v.table.Cursor():
		return v.enter(m)
	default:
		v.move(m, i-v.table.Cursor())
	}
	return nil
}

// enter shows the whole of the override under the cursor.
func (v *inForceView) enter(m *model) tea.Cmd {
	if o := v.current(); o != nil {
		lines := append(overrideText(o, m.now), m.effectsNow()[o.ID].Sentence())
		m.changes.question = &question{title: "In force", lines: wrapped(lines, m.width-questionBorder)}
	}
	return nil
}

func wrapped(lines []string, columns int) (all []string) {
	for _, text := range lines {
		all = append(all, output.Wrap(text, max(20, columns))...)
	}
	return all
}

func (v *inForceView) hints(m *model) string {
	if !m.mayChange() {
		return "enter all about it  esc back"
	}
	return "enter all about it  r revoke  e extend  esc back"
}

// effectsNow is what each override does now, by its ID.
func (m *model) effectsNow() map[string]effect {
	effects := map[string]effect{}
	for id, known := range m.feed.denials.LetThrough {
		effects[id] = effect{LetThrough: known.PerSecond}
	}
	for row, known := range m.feed.denials.Blocks {
		e := effects[row.ID]
		e.Denied += known.PerSecond
		effects[row.ID] = e
	}
	f := m.rules()
	for _, r := range m.feed.rows {
		if o := f.Override(r.Key); o != nil && (r.InUse || r.DeniedRate() > 0) {
			e := effects[o.ID]
			e.Keys++
			begun := store.InstantOf(o.CreatedAt)
			if r.Denial != nil && !isBlock(o) && (r.Denial.LastAt == 0 || r.Denial.LastAt >= begun) { // else it was before
				e.Denied += r.DeniedRate()
			}
			effects[o.ID] = e
		}
	}
	return effects
}

// fill gives the table its rows, and its columns their widths: whom an override is about is cut last.
func (v *inForceView) fill(m *model) {
	titles := []string{" ", "WHOM", "DOES", "UNTIL", "NOW", "BY", "WHY"}
	cells := make([][]string, len(v.all))
	widths := make([]int, len(titles))
	for i, title := range titles {
		widths[i] = width(title)
	}
	effects := m.effectsNow()
	for i := range v.all {
		o := &v.all[i]
		whom := allowance.Whom(o)
		if !o.Names.IsZero() {
			whom += " " + allowance.Pattern(o.Names)
		}
		cells[i] = []string{" ", whom, overrideSign(o) + " " + allowance.Effect(o), until(o.ExpiresAt, m.now),
			effects[o.ID].Text(), o.By, o.Reason}
		for n := range cells[i] {
			cells[i][n] = output.Printable(cells[i][n])
			widths[n] = max(widths[n], width(cells[i][n]))
		}
	}
	const leastBy, leastWhy = 12, 30
	widths[2] = min(widths[2], max(9, m.width/4))
	room := m.width - 1 // what it does, until when and whom it is about come first
	for _, n := range []int{0, 2, 3, 1, 4, 5, 6} {
		if n == 5 { // who set it, where there is room for why
			widths[n] = min(widths[n], max(leastBy, room-gap-leastWhy))
			if room < leastBy+gap+leastWhy {
				widths[n] = 0
			}
		}
		if widths[n] = min(widths[n], room-gap); widths[n] < min(3, width(titles[n])) {
			widths[n] = 0
			continue
		}
		room -= widths[n] + gap
	}
	whom := make([]string, len(cells))
	for i := range cells {
		whom[i] = cells[i][1]
	}
	prefix, whom := textcut.Distinct(whom, widths[1])
	columns, rows := make([]table.Column, len(titles)), make([]table.Row, len(cells))
	for n, title := range titles {
		columns[n] = table.Column{Title: title, Width: widths[n]}
	}
	columns[1].Title = prefixTitle("WHOM", prefix, widths[1])
	for i := range cells {
		cells[i][1] = whom[i]
		if i == v.table.Cursor() {
			cells[i][0] = cursorMark(true)
		}
		rows[i] = cells[i]
	}
	v.table.SetColumns(columns)
	v.table.SetRows(rows)
	v.table.SetWidth(m.width)
	v.table.SetHeight(m.bodyHeight())
}

// isUnderCursor reports whether a line is the one under the cursor.
func isUnderCursor(l line) bool {
	return len(l) > 0 && strings.HasPrefix(l[0].text, cursorMark(true))
}

func (v *inForceView) lines(m *model) []line {
	v.arrange(m)
	if len(v.all) == 0 {
		text := "no override is in force; o on a key sets one"
		if m.feed.overrides.problem != nil {
			text = "what is in force is not known"
		}
		return []line{plain(strings.Repeat(" ", markWidth) + text)}
	}
	v.fill(m) // with the mark where the cursor is now
	var lines []line
	for i, text := range strings.Split(v.table.View(), "\n") {
		switch l := plain(strings.TrimRight(text, " ")); {
		case i == 0:
			lines = append(lines, styled(text, output.Faint))
		case isUnderCursor(l):
			lines = append(lines, l.reverse(m.width))
		case strings.Contains(text, blockSign):
			lines = append(lines, styled(text, output.Near))
		default:
			lines = append(lines, l)
		}
	}
	return lines
}

// inForceText says how many overrides are in force, "" if there are none.
func (m *model) inForceText() string {
	if m.feed.overrides.list == nil {
		return ""
	}
	blocks, all := 0, 0
	for _, o := range m.feed.overrides.list.All() {
		if !m.now.Before(o.ExpiresAt) {
			continue
		}
		if all++; o.Effect == store.OverrideBlock {
			blocks++
		}
	}
	switch {
	case all == 0:
		return ""
	case blocks == 0:
		return output.Plural(all, "override")
	}
	return output.Plural(all, "override") + ", " + output.Plural(blocks, "block")
}

// revokeInForce and extendInForce ask about the override under the cursor.
func (m *model) revokeInForce() tea.Cmd {
	return m.changeInForce(choice{word: "revoke", revokes: true})
}

func (m *model) extendInForce() tea.Cmd {
	return m.changeInForce(choice{word: "extend", extends: true})
}

func (m *model) changeInForce(c choice) tea.Cmd {
	o := m.inForce.current()
	switch {
	case !m.mayChange():
		m.say("nothing can be changed from here: the context is read-only")
	case o != nil && !m.isBusy():
		about := *o
		m.openForm(&form{title: strings.ToUpper(c.word[:1]) + c.word[1:] + " " + output.Printable(allowance.All(o)), override: &about,
			choices: []choice{c}})
	}
	return nil
}
