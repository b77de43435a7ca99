package output

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

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
	// Names says that cells name the subject of the row. They are cut so that they stay different, and only when no
	// column is left to drop. Such a column Shrinks to 8 or more.
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
			row[i].Text = Printable(Shorten(row[i].Text, longestCell))
		}
	}
	columns, rows = withoutEmpty(columns, rows)
	columns, rows, above := p.fit(columns, rows)
	for _, line := range above {
		fmt.Fprintln(p.Out, p.Paint(Faint, line))
	}
	rows, long := p.standIns(columns, rows)
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
	for i, line := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
		line = strings.TrimRight(line, " ")
		if padded, is := strings.CutSuffix(line, " \x1b[0m"); is { // the table ends styles again after its padding
			line = strings.TrimRight(padded, " ")
		}
		for _, cell := range long[i-1] { // the headers come first
			line = strings.Replace(line, cell.standIn, cell.text, 1)
		}
		fmt.Fprintln(p.Out, line)
	}
}

const (
	// alwaysPadded is the width up to which all cells are padded, even without a terminal.
	alwaysPadded = 80
	// firstStandIn replaces a long cell of the first column, the next character one of the second, and so on. These
	// are Braille characters, which we never print.
	firstStandIn, lastStandIn = '\u2801', '\u28ff'
)

// longCell is a text that is replaced while the columns are laid out.
type longCell struct{ standIn, text string }

// standIns replaces cells that are much wider than most of their column, so that such a cell moves only the rest of
// its own row. It returns the replaced cells by row. On a terminal such cells are cut instead.
func (p *Printer) standIns(columns []Column, rows [][]Cell) (short [][]Cell, long map[int][]longCell) {
	if p.Width > 0 {
		return rows, nil
	}
	short, long = slices.Clone(rows), map[int][]longCell{}
	for c, column := range columns {
		var widths []int
		for _, row := range rows {
			if strings.ContainsFunc(row[c].Text, func(r rune) bool { return firstStandIn <= r && r <= lastStandIn }) {
				return rows, nil // a text already contains such characters
			}
			widths = append(widths, Width(row[c].Text))
		}
		slices.Sort(widths)
		most := alwaysPadded
		if len(widths) > 0 {
			most = max(most, 2*widths[(len(widths)-1)/2])
		}
		usual := Width(column.Header)
		for _, width := range widths {
			if width <= most {
				usual = max(usual, width)
			}
		}
		for i, row := range rows {
			if Width(row[c].Text) > most && firstStandIn+rune(c) <= lastStandIn {
				standIn := strings.Repeat(string(firstStandIn+rune(c)), usual)
				long[i] = append(long[i], longCell{standIn, row[c].Text})
				short[i] = slices.Clone(short[i])
				short[i][c].Text = standIn
			}
		}
	}
	return short, long
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

const (
	columnGap = "  "
	ellipsis  = "…"
)

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

// fit makes rows fit the terminal, and leaves what it gets as it is: the beginning that all names have in common moves
// into the header, then columns are dropped, then a name that all rows share moves above the table, and at last cells
// are cut, those of the widest columns first. Where names are cut, columns are dropped before.
func (p *Printer) fit(columns []Column, rows [][]Cell) (fitting []Column, cells [][]Cell, above []string) {
	widths, total := widthsOf(columns, rows)
	if p.Width == 0 || total <= p.Width {
		return columns, rows, nil
	}
	columns, rows = slices.Clone(columns), slices.Clone(rows)
	hasNames := false
	for i := range rows {
		rows[i] = slices.Clone(rows[i])
	}
	for i := range columns {
		if !columns[i].Names || total <= p.Width {
			continue
		}
		hasNames = true
		prefix := textcut.CommonPrefix(textsOf(rows, i))
		header := columns[i].Header + " " + prefix + ellipsis
		if prefix == "" || Width(header) >= widths[i] {
			continue
		}
		columns[i].Header = header
		for row := range rows {
			rows[row][i].Text = rows[row][i].Text[len(prefix):]
		}
		widths, total = widthsOf(columns, rows)
	}
	drop := func(i int) {
		columns = slices.Delete(columns, i, i+1)
		for row := range rows {
			rows[row] = slices.Delete(rows[row], i, i+1)
		}
		widths, total = widthsOf(columns, rows)
	}
	least := func() int {
		n := total
		for i, column := range columns {
			if column.Shrinks > 0 && !hasNames {
				n -= max(0, widths[i]-column.Shrinks)
			}
		}
		return n
	}
	for least() > p.Width {
		last := slices.MaxFunc(columns, func(a, b Column) int { return a.Drops - b.Drops })
		if last.Drops == 0 {
			break
		}
		drop(slices.Index(columns, last))
	}
	for i := len(columns) - 1; i > 0 && total > p.Width; i-- {
		names := textsOf(rows, i)
		if !columns[i].Names || len(slices.Compact(names)) != 1 {
			continue
		}
		header, hasPrefix := strings.CutSuffix(columns[i].Header, ellipsis)
		if !hasPrefix {
			header += " "
		}
		above = append(above, Cut(header+names[0], p.Width))
		drop(i)
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
		columns[i].Header = Cut(column.Header, widths[i])
		cut := textsOf(rows, i)
		if column.Names {
			_, cut = textcut.Distinct(cut, widths[i])
		}
		for row := range rows {
			rows[row][i].Text = Cut(cut[row], widths[i])
		}
	}
	return columns, rows, above
}

// textsOf returns the texts of a column.
func textsOf(rows [][]Cell, i int) []string {
	texts := make([]string, len(rows))
	for row := range rows {
		texts[row] = rows[row][i].Text
	}
	return texts
}
