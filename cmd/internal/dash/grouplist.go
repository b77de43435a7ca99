package dash

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/dash/figures"
	"github.com/limitctl/limitctl/cmd/internal/dash/followed"
	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/textcut"
)

// groupList is the screen that lists groups of keys.
type groupList struct {
	by          source.Grouping
	groups      []*group
	cursor, top int
}

// group is keys that have something in common.
type group struct {
	by   *source.Grouping
	name string
	// keys and atLimit are of all keys, also of those that are not followed; if least is
	// true there may be more.
	keys, atLimit int64
	least         bool
	followed      int64
	rate          float64       // of those that are followed, in units a second
	denied        float64       // denials a second, by limits
	blocked       float64       // and by blocks
	closest       *followed.Row // to its limit; nil if none of its keys is followed
}

// title is the name of the group, as it is shown.
func (g *group) title() string {
	if g.name == "" {
		return "(none)"
	}
	return output.Printable(g.name)
}

// arrange makes the groups of the rows in the list of keys, and counts all keys where not all
// are followed.
func (l *groupList) arrange(m *model) {
	byName := map[string]*group{}
	l.groups = l.groups[:0]
	of := func(name string) *group {
		g := byName[name]
		if g == nil {
			by := l.by
			g = &group{by: &by, name: name}
			byName[name] = g
			l.groups = append(l.groups, g)
		}
		return g
	}
	for _, r := range m.keys.rows {
		if !r.InUse && r.DeniedRate() == 0 {
			continue
		}
		g := of(groupOf(l.by, r))
		g.rate += r.Rate()
		if r.IsBlocked() {
			g.blocked += r.DeniedRate()
		} else {
			g.denied += r.DeniedRate()
		}
		if g.closest == nil || followed.ByDenied.Compare(r, g.closest) < 0 {
			g.closest = r
		}
		if !r.InUse {
			continue
		}
		g.keys++
		if r.IsAtLimit() {
			g.atLimit++
		}
	}
	for _, g := range l.groups {
		g.followed = g.keys
	}
	l.addUnfollowed(m, of)
	slices.SortFunc(l.groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(math.Round(b.denied), math.Round(a.denied)), cmp.Compare(math.Round(b.blocked), math.Round(a.blocked)),
			cmp.Compare(b.atLimit, a.atLimit),
			compareClosest(a.closest, b.closest), cmp.Compare(a.name, b.name))
	})
	l.move(m, 0)
}

// addUnfollowed counts the keys that are not followed, as the last whole scan found them. What
// that does not know is the least that there are.
func (l *groupList) addUnfollowed(m *model, of func(name string) *group) {
	totals := m.feed.groups
	isWhole := m.Query.Keys != nil || m.feed.coverage.Passes > 0
	switch {
	case isWhole && !m.feed.coverage.Full: // all are followed
		return
	case !isWhole || totals == nil || m.filter.Text != "":
		for _, g := range l.groups {
			g.least = true
		}
		return
	}
	if l.by.Network { // of which there are no totals
		for _, g := range l.groups {
			g.least = true
		}
		return
	}
	counted, none := totals.By[l.by], source.GroupTotal{Keys: m.feed.coverage.Matched, AtLimit: m.feed.coverage.AtLimit}
	for name, total := range counted {
		none.Keys -= total.Keys
		none.AtLimit -= total.AtLimit
		g := of(name)
		g.keys, g.atLimit = max(g.keys, total.Keys), max(g.atLimit, total.AtLimit)
	}
	more := totals.More[l.by]
	if !more && none.Keys > 0 {
		g := of("")
		g.keys, g.atLimit = max(g.keys, none.Keys), max(g.atLimit, none.AtLimit)
	}
	for _, g := range l.groups {
		_, known := counted[g.name]
		g.least = !known && (more || g.name != "")
	}
}

// compareClosest compares the closest keys of groups. A group without any comes last.
func compareClosest(a, b *followed.Row) int {
	switch {
	case a == nil || b == nil:
		return followed.TrueFirst(a != nil, b != nil)
	default:
		return followed.ByCloseness.Compare(a, b)
	}
}

func (l *groupList) move(m *model, by int) {
	l.cursor = max(0, min(l.cursor+by, len(l.groups)-1))
	l.top = scrolled(l.top, l.cursor, len(l.groups), m.listHeight())
}

// enter lists the keys of the group under the cursor.
func (l *groupList) enter(m *model) tea.Cmd {
	if l.cursor < len(l.groups) && l.groups[l.cursor].closest == nil {
		m.say("none of its keys is followed; give the dashboard a pattern for them")
		return nil
	}
	if l.cursor < len(l.groups) {
		m.keys.within = l.groups[l.cursor]
		m.show(&m.keys)
		m.keys.moveTo(m, 0, false)
		m.arrange()
	}
	return nil
}

// click selects a group. A second click opens it.
func (l *groupList) click(m *model, _, line int) tea.Cmd {
	i := l.top + line - 1
	switch {
	case line < 1 || line > m.listHeight() || i >= len(l.groups):
	case i == l.cursor:
		return l.enter(m)
	default:
		l.cursor = i
	}
	return nil
}

func (l *groupList) hints(*model) string {
	return "enter keys  g group by…  / filter  esc back"
}

// wishes are for the widths of a list of groups. It uses the columns of the list of keys:
// left for the keys, used for how many are at their limit, history for the closest key.
func (l *groupList) wishes(m *model, name, closest int) []wish {
	const widestName = 40
	all := []wish{
		{of: subjectColumn, width: 8}, {of: leftColumn, width: 7}, {of: deniedColumn, width: 9}, {subjectColumn, 12, true},
		{of: usedColumn, width: 8}, {of: rateColumn, width: 6}, {subjectColumn, min(name, widestName), true},
		{of: historyColumn, width: 14}, {historyColumn, closest, true}, {subjectColumn, name, true},
	}
	return slices.DeleteFunc(all, func(w wish) bool { return w.of == deniedColumn && !m.feed.denials.Known })
}

// lines are the groups in sight, below their header.
func (l *groupList) lines(m *model) []line {
	const percent = 5 // of the closest key, before its subject
	inSight := l.groups[l.top:min(l.top+m.listHeight(), len(l.groups))]
	names, closest := make([]string, len(inSight)), make([]string, len(inSight))
	nameWidth, closestWidth := width(l.by.String()), len("CLOSEST KEY")
	for i, g := range inSight {
		names[i] = g.title()
		if g.closest != nil {
			closest[i] = output.Printable(g.closest.Key.Subject)
		}
		nameWidth, closestWidth = max(nameWidth, width(names[i])), max(closestWidth, width(closest[i])+percent)
	}
	widths := allot(m.width, l.wishes(m, nameWidth, closestWidth))
	prefix, closestPrefix := "", ""
	if len(inSight) > 0 {
		prefix, names = textcut.Distinct(names, widths[subjectColumn])
		closestPrefix, closest = textcut.Distinct(closest, max(0, widths[historyColumn]-percent))
	}
	cells := func(style output.Style, texts map[columnName]string) line {
		var cells line
		for _, c := range []columnName{subjectColumn, leftColumn, usedColumn, deniedColumn, rateColumn, historyColumn} {
			if widths[c] == 0 {
				continue
			}
			right := c != subjectColumn && c != historyColumn
			if cells != nil {
				cells = append(cells, span{strings.Repeat(" ", gap), output.Plain})
			}
			cells = append(cells, span{pad(texts[c], widths[c], right), style})
		}
		return cells
	}
	indent := strings.Repeat(" ", markWidth)
	header := cells(output.Faint, map[columnName]string{
		subjectColumn: prefixTitle(strings.ToUpper(l.by.String()), prefix, widths[subjectColumn]), leftColumn: "KEYS",
		usedColumn:   "AT LIMIT",
		deniedColumn: "DENIED/S", rateColumn: "/S", historyColumn: prefixTitle("CLOSEST KEY", closestPrefix, widths[historyColumn]),
	})
	lines := []line{append(plain(indent), header...)}
	if len(l.groups) == 0 {
		return append(lines, plain(indent+m.nothing()))
	}
	for i, g := range inSight {
		least := ""
		if g.least {
			least = "≥"
		}
		denied, share := "-", ""
		switch {
		case g.denied > 0:
			denied = deniedSign + " " + figures.Short(g.denied)
		case g.blocked > 0:
			denied = figures.BlockSign + " " + figures.Short(g.blocked)
		}
		if g.closest != nil {
			share = pad(followed.PercentText(g.closest), percent-1, true) + " " + closest[i]
		}
		drawn := cells(output.Plain, map[columnName]string{
			subjectColumn: names[i], leftColumn: least + output.Thousands(g.keys), usedColumn: least + output.Thousands(g.atLimit),
			deniedColumn: denied, rateColumn: figures.Short(g.rate), historyColumn: share,
		})
		for n := range drawn {
			switch text := strings.TrimSpace(drawn[n].text); {
			case g.denied > 0 && text == denied:
				drawn[n] = span{drawn[n].text, output.AtEnd}
			case g.closest != nil && text == strings.TrimSpace(share):
				drawn[n].style = closeness(g.closest)
			}
		}
		selected := l.top+i == l.cursor
		drawn = append(line{{pad(cursorMark(selected), markWidth, false), bold}}, drawn...)
		if selected {
			drawn = drawn.reverse(m.width)
		}
		lines = append(lines, drawn)
	}
	return lines
}

// groupMenu is where one chooses what keys are grouped by.
type groupMenu struct {
	choices []string          // titles of groupings; the last one is no groups
	by      []source.Grouping // those of the choices
	cursor  int
}

// noGroups is the choice of the keys themselves.
const noGroups = "keys, not grouped"

// askGrouping opens the menu, with the cursor on what was chosen last.
func (m *model) askGrouping() tea.Cmd {
	menu := &groupMenu{by: append([]source.Grouping{{}}, m.feed.groupings()...)}
	for _, by := range menu.by {
		menu.choices = append(menu.choices, by.String())
	}
	menu.cursor = max(0, slices.Index(menu.by, m.groups.by))
	menu.choices = append(menu.choices, noGroups)
	m.changes.menu = menu
	return nil
}

// choose takes a key that is pressed at the menu: it moves, or chooses by the number before an entry. Letters would mean
// another thing with each store, and some of them move.
func (m *model) choose(msg tea.KeyMsg) tea.Cmd {
	menu := m.changes.menu
	pressed := msg.String()
	switch pressed {
	case "esc", "q", "g":
		m.changes.menu = nil
	case "down", "j", "tab":
		menu.cursor = (menu.cursor + 1) % len(menu.choices)
	case "up", "k":
		menu.cursor = (menu.cursor + len(menu.choices) - 1) % len(menu.choices)
	case "enter", " ":
		return m.groupBy(menu.cursor)
	default:
		for i := range menu.choices {
			if pressed != "" && pressed == menu.number(i) {
				return m.groupBy(i)
			}
		}
	}
	return nil
}

// number is the key that chooses an entry; empty for those beyond the ninth. No groups are 0 in every store.
func (menu *groupMenu) number(i int) string {
	switch {
	case i == len(menu.by):
		return "0"
	case i < 9:
		return fmt.Sprint(i + 1)
	}
	return ""
}

// groupBy shows the groups of a choice, or the keys.
func (m *model) groupBy(choice int) tea.Cmd {
	by := m.changes.menu.by
	m.changes.menu = nil
	m.keys.within, m.back = nil, nil
	if choice == len(by) {
		m.switchTo(&m.keys)
	} else {
		by := by[choice]
		m.groups = groupList{by: by}
		m.switchTo(&m.keys)
		m.show(&m.groups)
	}
	m.arrange()
	return nil
}

// box draws the menu in at most that many lines and columns.
func (menu *groupMenu) box(height, columns int) []line {
	const around = 4 // the border, the title and the hints
	room := max(1, height-around)
	first := max(0, min(menu.cursor-room/2, len(menu.choices)-room))
	lines := []line{styled("Group by", bold)}
	for i := first; i < min(first+room, len(menu.choices)); i++ {
		l := line{{cursorMark(i == menu.cursor) + " ", output.Plain}, {pad(menu.number(i), 2, false), bold},
			{output.Printable(menu.choices[i]), output.Plain}}
		if i == menu.cursor {
			l = l.reverse(0)
		}
		lines = append(lines, l)
	}
	lines = append(lines, line{{"0-9", bold}, {" or ", output.Plain}, {"↑↓ enter", bold}, {" choose  ", output.Plain},
		{"esc", bold}, {" leave", output.Plain}})
	return boxed(lines, columns)
}

// groupOf returns the name of the row's group, "" if it is in none.
func groupOf(g source.Grouping, r *followed.Row) string {
	if g.Attribute == "" {
		return r.LimitName()
	}
	for i := range r.Attributes {
		if r.Attributes[i].Name == g.Attribute {
			if g.Network {
				return source.NetworkOf(r.Attributes[i].Value)
			}
			return r.Attributes[i].Value
		}
	}
	return ""
}
