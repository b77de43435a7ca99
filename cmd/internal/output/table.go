package output

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/mattn/go-runewidth"
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
}

// Cell is a text and its style.
type Cell struct {
	Text  string
	Style Style
}

// Table prints rows under columns, without lines, and no wider than the
// terminal where it can be helped.
func (p *Printer) Table(columns []Column, rows [][]Cell) {
	p.fit(columns, rows)
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
		fmt.Fprintln(p.Out, strings.TrimRight(line, " \n"))
	}
}

const columnGap = "  "

// fit cuts the cells of columns that shrink, the widest first, until a row fits.
func (p *Printer) fit(columns []Column, rows [][]Cell) {
	if p.Width == 0 {
		return
	}
	widths := make([]int, len(columns))
	total := 0
	for i, column := range columns {
		widths[i] = runewidth.StringWidth(column.Header)
		for _, row := range rows {
			widths[i] = max(widths[i], runewidth.StringWidth(row[i].Text))
		}
		total += widths[i] + len(columnGap)
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
}

// Cut shortens text to a width in terminal columns, with an ellipsis in place of
// what is left out.
func Cut(text string, width int) string {
	if runewidth.StringWidth(text) <= width {
		return text
	}
	return runewidth.Truncate(text, width, "…")
}

// Bar draws used of capacity as a bar of that many columns. It is empty only if
// nothing is used and full only if nothing is left.
func Bar(used, capacity int64, width int) string {
	filled := int(used * int64(width) / capacity)
	if used > 0 && filled == 0 {
		filled = 1
	}
	if used >= capacity {
		filled = width
	} else if filled == width {
		filled = width - 1
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
