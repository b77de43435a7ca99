package ui

import (
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
)

// Column is one of a table.
type Column struct {
	Title string
	Width int // 0 leaves it out
	Right bool
}

// Gap is between columns, and Mark is the columns of the cursor and of marks.
const (
	Gap  = 2
	Mark = 2
)

// Table is the cursor in a list of rows, and which of them are in sight. It is the one of every list.
type Table struct{ Cursor, Top int }

// MoveTo puts the cursor on a row of so many. The rows in sight move no further than they must.
func (t *Table) MoveTo(at, rows, height int) {
	height = max(1, height)
	t.Cursor = max(0, min(at, rows-1))
	t.Top = max(min(t.Top, t.Cursor), t.Cursor-height+1)
	t.Top = max(0, min(t.Top, rows-height))
}

// InSight are the rows in sight, of so many.
func (t *Table) InSight(rows, height int) (from, to int) {
	return t.Top, min(t.Top+max(1, height), rows)
}

// Lines draws the title and rows of cells that are styled already. Each cell is cut to its column.
func (t *Theme) Lines(columns []Column, rows [][]string) []string {
	var shown []int
	var titles []string
	var styles []lipgloss.Style
	for i := range columns {
		c := &columns[i]
		if c.Width == 0 {
			continue
		}
		shown, titles = append(shown, i), append(titles, t.Faint.Of(c.Title))
		style := t.Plain.style.Width(c.Width)
		if i > 0 && i < len(columns)-1 {
			style = style.Width(c.Width + Gap).PaddingRight(Gap)
		}
		if c.Right {
			style = style.Align(lipgloss.Right)
		}
		styles = append(styles, style)
	}
	drawn := table.New().Border(lipgloss.Border{}).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderHeader(false).BorderColumn(false).Wrap(false).Headers(titles...).
		StyleFunc(func(_, i int) lipgloss.Style { return styles[i] })
	total := 0
	for n := range shown {
		total += styles[n].GetWidth()
	}
	for _, cells := range rows {
		all := make([]string, len(shown))
		for n, i := range shown {
			all[n] = Fit(cells[i], columns[i].Width)
		}
		drawn.Row(all...)
	}
	lines := Lines(drawn.Width(total).Render())
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// Grow gives what is left of so many columns to one of them, at least least.
func Grow(columns []Column, which, width, least int) {
	left := width
	for i := range columns {
		if i != which && columns[i].Width > 0 {
			left -= columns[i].Width
			if i > 0 {
				left -= Gap
			}
		}
	}
	columns[which].Width = max(least, left)
}
