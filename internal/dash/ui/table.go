package ui

import (
	"slices"
	"strings"
)

// Column is one of a table.
type Column struct {
	Title string
	Width int // 0 leaves it out
	Right bool
}

// Mark is the columns of the cursor and of marks.
const Mark = 2

// gap is the blanks before a column. One that is aligned to the right has blanks of its own.
func gap(columns []Column, i int) int {
	switch {
	case i <= 1:
		return 0
	case columns[i].Right:
		return 1
	}
	return 2
}

// Taken is what columns take of a line.
func Taken(columns []Column) (taken int) {
	for i := range columns {
		if columns[i].Width > 0 {
			taken += gap(columns, i) + columns[i].Width
		}
	}
	return taken
}

// Table is the cursor in a list of rows, and which of them are in sight. It is the one of every list.
type Table struct {
	Cursor, Top int
	Height      int // rows in sight
}

// Home is a move to the first row, and End one to the last.
const Home, End = -End, 1 << 30

// Move moves the cursor in a list of so many rows. Those in sight move no further than they must.
func (t *Table) Move(by, rows int) {
	height := max(1, t.Height)
	t.Cursor = max(0, min(t.Cursor+by, rows-1))
	t.Top = max(min(t.Top, t.Cursor), t.Cursor-height+1)
	t.Top = max(0, min(t.Top, rows-height))
}

// Page is how many rows are in sight.
func (t *Table) Page() int { return t.Height }

// Lines draws the title and rows of cells that are styled already. Each cell is cut to its column.
func (t *Theme) Lines(columns []Column, rows [][]string) []string {
	titles := make([]string, len(columns))
	for i := range columns {
		titles[i] = t.Faint.Of(columns[i].Title)
	}
	lines := make([]string, 0, len(rows)+1)
	for _, cells := range slices.Insert(rows, 0, titles) {
		var line strings.Builder
		for i, c := range columns {
			if c.Width == 0 {
				continue
			}
			pad := Pad
			if c.Right {
				pad = PadLeft
			}
			line.WriteString(strings.Repeat(" ", gap(columns, i)) + pad(Fit(cells[i], c.Width), c.Width))
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}

// Grow gives what is left of so many columns to one of them, at least least.
func Grow(columns []Column, which, width, least int) {
	columns[which].Width = 1
	columns[which].Width = max(least, width-Taken(columns)+1)
}
