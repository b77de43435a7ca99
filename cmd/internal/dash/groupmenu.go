package dash

import (
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// groupMenu is where one chooses what keys are grouped by.
type groupMenu struct {
	choices []string // titles of groupings; the last one is no groups
	cursor  int
}

// noGroups is the choice of the keys themselves.
const noGroups = "keys, not grouped"

// askGrouping opens the menu, with the cursor on what was chosen last.
func (m *model) askGrouping() tea.Cmd {
	menu := &groupMenu{choices: append([]string{(&grouping{}).title()}, m.feed.attributes()...)}
	menu.cursor = max(0, slices.Index(menu.choices, m.groups.by.title()))
	menu.choices = append(menu.choices, noGroups)
	m.changes.menu = menu
	return nil
}

// choose takes a key that is pressed at the menu: it moves, or chooses by number or by the
// first letter where only one choice has it.
func (m *model) choose(msg tea.KeyMsg) tea.Cmd {
	menu := m.changes.menu
	pressed := msg.String()
	switch pressed {
	case "esc", "q":
		m.changes.menu = nil
		return nil
	case "down", "j", "g", "tab":
		menu.cursor = (menu.cursor + 1) % len(menu.choices)
		return nil
	case "up", "k":
		menu.cursor = (menu.cursor + len(menu.choices) - 1) % len(menu.choices)
		return nil
	case "enter", " ":
		return m.groupBy(menu.cursor)
	}
	if len(pressed) == 1 && pressed >= "1" && pressed <= "9" {
		if n := int(pressed[0] - '1'); n < len(menu.choices) {
			return m.groupBy(n)
		}
		return nil
	}
	var with []int
	for i, title := range menu.choices {
		if strings.HasPrefix(title, pressed) {
			with = append(with, i)
		}
	}
	if len(with) == 1 {
		return m.groupBy(with[0])
	}
	if len(with) > 1 {
		menu.cursor = with[0]
	}
	return nil
}

// groupBy shows the groups of a choice, or the keys.
func (m *model) groupBy(choice int) tea.Cmd {
	title := m.changes.menu.choices[choice]
	m.changes.menu = nil
	m.keys.within, m.back = nil, nil
	switch by := (grouping{title}); {
	case title == noGroups:
		m.switchTo(&m.keys)
	default:
		if title == (&grouping{}).title() && choice == 0 {
			by = grouping{}
		}
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
		number := " "
		if i < 9 {
			number = fmt.Sprint(i + 1)
		}
		l := plain(cursorMark(i == menu.cursor) + " " + number + " " + output.Printable(menu.choices[i]))
		if i == menu.cursor {
			l = l.reverse(0)
		}
		lines = append(lines, l)
	}
	lines = append(lines, line{{"enter", bold}, {" or its number or first letter  ", output.Plain}, {"esc", bold}, {" leave", output.Plain}})
	return boxed(lines, columns)
}
