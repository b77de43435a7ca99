package output

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Column is one column of a [Table].
type Column struct {
	Header string
	Right  bool // align right, as numbers are
	// Shrinks says that cells may be cut, an ellipsis marking it, to fit the
	// terminal's width. It holds the least width to leave.
	Shrinks int
	// Drops orders the columns a terminal too narrow for all does without, the
	// greatest first; 0 is for those that stay.
	Drops int
	// Names says that cells name what the row is about, such as a subject. They are cut
	// so that people can tell them apart, and only when there is nothing left to drop.
	// Such a column Shrinks to [textcut.LeastWidth] or more.
	Names bool
}

// Cell is a text and its style. Text may be anything: it is shown as [Printable] does.
type Cell struct {
	Text  string
	Style Style
}

// longestCell is how many bytes of a text a table shows, which is more than limits of limitctl have.
// One key of another limiter can be longer by far.
const longestCell = 2 << 10

// TableLines returns the lines that [Printer.Table] prints, that of the headers first.
func (p *Printer) TableLines(columns []Column, rows [][]Cell) []string {
	var text bytes.Buffer
	to := *p
	to.Out = &text
	to.Table(columns, rows)
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}

// TooNarrow reports whether a table of these columns and rows is wider than the terminal, if nothing of it is cut.
func (p *Printer) TooNarrow(columns []Column, rows [][]Cell) bool {
	printable(rows)
	return p.Width > 0 && TableWidth(columns, rows) > p.Width
}

// printable makes the texts of cells what is shown of them.
func printable(rows [][]Cell) {
	for _, row := range rows {
		for i := range row {
			row[i].Text = Printable(Shorten(row[i].Text, longestCell))
		}
	}
}

// Table prints rows under columns, without lines, and no wider than the
// terminal where it can be helped.
func (p *Printer) Table(columns []Column, rows [][]Cell) {
	printable(rows)
	columns, rows, above := p.fit(columns, rows)
	if len(above) > 0 {
		p.Line("%s", p.Paint(Faint, strings.Join(above, columnGap)))
	}
	widths, _ := widthsOf(columns, rows)
	if p.Width == 0 {
		widths = alignedWidths(columns, rows)
	}
	header := make([]Cell, len(columns))
	for i, column := range columns {
		header[i] = Cell{column.Header, Faint}
	}
	p.tableLine(columns, widths, header)
	for _, row := range rows {
		p.tableLine(columns, widths, row)
	}
}

// tableLine prints a row. After a cell that is wider than its column the rest of the row moves to the right.
func (p *Printer) tableLine(columns []Column, widths []int, row []Cell) {
	var line strings.Builder
	for i, cell := range row {
		text, padding := p.Paint(cell.Style, cell.Text), strings.Repeat(" ", max(widths[i]-Width(cell.Text), 0))
		if columns[i].Right {
			text, padding = padding+text, ""
		}
		line.WriteString(text + padding + columnGap)
	}
	fmt.Fprintln(p.Out, strings.TrimRight(line.String(), " "))
}

// alwaysAligned is how wide a cell may be and always widens its column.
const alwaysAligned = 80

// alignedWidths returns how wide the columns are where no terminal bounds them. Cells that are
// much wider than most of their column do not widen it, since all other rows would be filled up with blanks.
func alignedWidths(columns []Column, rows [][]Cell) []int {
	aligned := make([]int, len(columns))
	for i, column := range columns {
		widths := []int{Width(column.Header)}
		for _, row := range rows {
			widths = append(widths, Width(row[i].Text))
		}
		slices.Sort(widths)
		most := max(alwaysAligned, 2*widths[(len(widths)-1)/2])
		for _, width := range widths {
			if width <= most {
				aligned[i] = width
			}
		}
	}
	return aligned
}

// Bar draws used of capacity as a bar of that many columns. It is empty only if
// nothing is used and full only if nothing is left.
func Bar(used, capacity int64, width int) string {
	filled := width
	if used < capacity {
		filled = min(int(float64(used)/float64(capacity)*float64(width)), width-1)
	}
	if used > 0 && filled == 0 {
		filled = 1
	}
	bar := make([]rune, width)
	for i := range bar {
		bar[i] = '░'
		if i < filled {
			bar[i] = '█'
		}
	}
	return string(bar)
}
