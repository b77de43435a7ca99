package output

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/internal/textcut"
)

// Column is one column of a [Table].
type Column struct {
	Header string
	Right  bool // align right, for numbers
	// Shrinks is the smallest width to which cells may be cut, with an ellipsis, to fit the terminal. 0 means that
	// they may not.
	Shrinks int
	// Drops is the order in which columns are dropped on a narrow terminal, the greatest first; 0 means never.
	Drops int
	// Names says that cells name the subject of the row. They are cut so that they stay different, and below a good
	// width only when no column is left to drop. Such a column Shrinks to 8 or more.
	Names bool
	// Optional says that the column is left out if all its cells are empty.
	Optional bool
}

// Cell is a text and its style. Any text is allowed: it is shown like [Printable].
type Cell struct {
	Text  string
	Style Style
}

// longestCell is the most bytes of a text in a table, which is more than limits of limitctl have. A key of another
// limiter can be much longer, and every row is as wide as the widest.
const longestCell = 2 << 10

// TableLines returns the lines that [Printer.Table] prints, the headers first.
func (p *Printer) TableLines(columns []Column, rows [][]Cell) []string {
	var text bytes.Buffer
	to := *p
	to.Out = &text
	to.Table(columns, rows)
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}

// withoutEmpty returns the table without optional columns that are empty.
func withoutEmpty(columns []Column, rows [][]Cell) ([]Column, [][]Cell) {
	columns, rows = slices.Clone(columns), slices.Clone(rows)
	for i := len(columns) - 1; i >= 0; i-- {
		if !columns[i].Optional || slices.ContainsFunc(rows, func(row []Cell) bool { return row[i].Text != "" }) {
			continue
		}
		columns = slices.Delete(columns, i, i+1)
		for row := range rows {
			rows[row] = slices.Delete(slices.Clone(rows[row]), i, i+1)
		}
	}
	return columns, rows
}

// Table prints rows under headers, without lines, and no wider than the terminal if possible.
func (p *Printer) Table(columns []Column, rows [][]Cell) {
	for _, row := range rows {
		for i := range row {
			if columns[i].Names {
				row[i].Text = subjecttext.Readable(row[i].Text)
			}
			row[i].Text = Printable(Shorten(row[i].Text, longestCell))
		}
	}
	columns, rows = p.fit(withoutEmpty(columns, rows))
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
			Header: tw.CellConfig{Formatting: tw.CellFormatting{AutoFormat: tw.Off}, Alignment: alignment,
				Padding: padding},
			Row: tw.CellConfig{Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone}, Alignment: alignment,
				Padding: padding},
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
	for line := range strings.SplitSeq(strings.TrimSuffix(text.String(), "\n"), "\n") {
		line = strings.TrimRight(line, " ")
		if padded, is := strings.CutSuffix(line, " \x1b[0m"); is { // the table ends styles again after its padding
			line = strings.TrimRight(padded, " ")
		}
		fmt.Fprintln(p.Out, line)
	}
}

// Bar draws used of capacity as a bar of that width. It is empty only if nothing is used and full only if nothing
// remains.
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

const columnGap = "  "

// widthsOf returns the widths of the columns and of a row.
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

// fit makes rows fit the terminal, and leaves what it gets as it is: columns are dropped, then the widest cells are
// cut. Where names are cut, the beginning that all have in common moves into the header.
func (p *Printer) fit(columns []Column, rows [][]Cell) ([]Column, [][]Cell) {
	widths, total := widthsOf(columns, rows)
	if p.Width == 0 || total <= p.Width {
		return columns, rows
	}
	columns, rows = slices.Clone(columns), slices.Clone(rows)
	for i := range rows {
		rows[i] = slices.Clone(rows[i])
	}
	for {
		least := total
		for i, column := range columns {
			switch {
			case column.Names:
				least -= max(0, widths[i]-goodName)
			case column.Shrinks > 0:
				least -= max(0, widths[i]-column.Shrinks)
			}
		}
		last := slices.IndexFunc(columns, func(c Column) bool {
			return c.Drops > 0 && !slices.ContainsFunc(
				columns, func(other Column) bool { return other.Drops > c.Drops })
		})
		if least <= p.Width || last < 0 {
			break
		}
		columns = slices.Delete(columns, last, last+1)
		for i := range rows {
			rows[i] = slices.Delete(rows[i], last, last+1)
		}
		widths, total = widthsOf(columns, rows)
	}
	for ; total > p.Width; total-- {
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
	}
	for i, column := range columns {
		cut := make([]string, len(rows))
		for row := range rows {
			cut[row] = rows[row][i].Text
		}
		if column.Names {
			var prefix string
			if prefix, cut = textcut.Distinct(cut, widths[i]); prefix != "" {
				prefix += "…"
				if column.Header += " " + prefix; Width(column.Header) > widths[i] {
					column.Header = prefix
				}
			}
		}
		columns[i].Header = Cut(column.Header, widths[i])
		for row := range rows {
			rows[row][i].Text = Cut(cut[row], widths[i])
		}
	}
	return columns, rows
}

// goodName is the width that names have before columns are dropped.
const goodName = 24
