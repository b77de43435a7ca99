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
// One key of another limiter can be longer by far, and every row is as wide as the widest.
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
	whole := *p
	whole.Width, whole.Color = 0, false
	return p.Width > 0 && slices.ContainsFunc(whole.TableLines(columns, rows), func(line string) bool { return Width(line) > p.Width })
}

// Table prints rows under columns, without lines, and no wider than the
// terminal where it can be helped.
func (p *Printer) Table(columns []Column, rows [][]Cell) {
	for _, row := range rows {
		for i := range row {
			row[i].Text = Printable(Shorten(row[i].Text, longestCell))
		}
	}
	columns, rows, above := p.fit(columns, rows)
	if len(above) > 0 {
		p.Line("%s", p.Paint(Faint, strings.Join(above, columnGap)))
	}
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
