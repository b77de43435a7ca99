package output

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
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
}

// Cell is a text and its style. Text may be anything: it is shown as [Printable] does.
type Cell struct {
	Text  string
	Style Style
}

// Table prints rows under columns, without lines, and no wider than the
// terminal where it can be helped.
func (p *Printer) Table(columns []Column, rows [][]Cell) {
	for _, row := range rows {
		for i := range row {
			row[i].Text = Printable(row[i].Text)
		}
	}
	columns, rows = p.fit(columns, rows)
	alignments := make([]tw.Align, len(columns))
	header := make([]string, len(columns))
	for i, column := range columns {
		header[i] = p.Paint(Faint, column.Header)
		alignments[i] = tw.AlignLeft
		if column.Right {
			alignments[i] = tw.AlignRight
		}
	}
	alignment := tw.CellAlignment{PerColumn: alignments}
	padding := tw.CellPadding{Global: tw.Padding{Left: "", Right: columnGap, Overwrite: true}}
	var text bytes.Buffer
	table := tablewriter.NewTable(&text,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone},
		})),
		tablewriter.WithConfig(tablewriter.Config{
			Header: tw.CellConfig{Formatting: tw.CellFormatting{AutoFormat: tw.Off}, Alignment: alignment, Padding: padding},
			Row:    tw.CellConfig{Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone}, Alignment: alignment, Padding: padding},
		}),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithEastAsian(tw.Off), // as in Width
	)
	table.Header(header)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = p.Paint(cell.Style, cell.Text)
		}
		table.Append(cells)
	}
	table.Render()
	for line := range strings.Lines(text.String()) {
		line = strings.TrimRight(line, " \n")
		if padded, is := strings.CutSuffix(line, " \x1b[0m"); is { // the table ends styles after its padding once more
			line = strings.TrimRight(padded, " ")
		}
		fmt.Fprintln(p.Out, line)
	}
}

const columnGap = "  "

// fit makes rows fit the terminal: it drops columns until the rest can fit, then
// cuts the cells of those that shrink, the widest first.
func (p *Printer) fit(columns []Column, rows [][]Cell) ([]Column, [][]Cell) {
	if p.Width == 0 {
		return columns, rows
	}
	widths, total := widthsOf(columns, rows)
	for {
		least, drop := -len(columnGap), -1
		for i, column := range columns {
			if column.Shrinks > 0 {
				least += min(column.Shrinks, widths[i])
			} else {
				least += widths[i]
			}
			least += len(columnGap)
			if column.Drops > 0 && (drop < 0 || column.Drops > columns[drop].Drops) {
				drop = i
			}
		}
		if least <= p.Width || drop < 0 {
			break
		}
		columns = slices.Delete(slices.Clone(columns), drop, drop+1)
		for i := range rows {
			rows[i] = slices.Delete(slices.Clone(rows[i]), drop, drop+1)
		}
		widths, total = widthsOf(columns, rows)
	}
	for total > p.Width {
		widest := -1
		for i, column := range columns {
			if column.Shrinks > 0 && widths[i] > column.Shrinks && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	for _, row := range rows {
		for i := range row {
			row[i].Text = Cut(row[i].Text, widths[i])
		}
	}
	return columns, rows
}

// widthsOf returns the columns' widths, and that of a row.
func widthsOf(columns []Column, rows [][]Cell) (widths []int, total int) {
	total = -len(columnGap)
	for i, column := range columns {
		width := Width(column.Header)
		for _, row := range rows {
			width = max(width, Width(row[i].Text))
		}
		widths = append(widths, width)
		total += width + len(columnGap)
	}
	return widths, total
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
