package output

import (
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/textcut"
)

const (
	columnGap = "  "
	ellipsis  = "…"
)

// TableWidth returns the width of a complete table.
func TableWidth(columns []Column, rows [][]Cell) int {
	_, total := widthsOf(columns, rows)
	return total
}

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

// fit makes rows fit the terminal, and leaves what it gets as it is. above has the common parts of names for which
// the headers have no room.
func (p *Printer) fit(columns []Column, rows [][]Cell) (fitting []Column, cells [][]Cell, above []string) {
	if p.Width == 0 {
		return columns, rows, nil
	}
	f := &fitted{columns: slices.Clone(columns), rows: make([][]Cell, len(rows)), prefixes: make([]string, len(columns))}
	for i := range rows {
		f.rows[i] = slices.Clone(rows[i])
	}
	f.fit(p.Width)
	return f.columns, f.rows, f.above
}

// fitted is a table while it is fitted.
type fitted struct {
	columns  []Column
	rows     [][]Cell
	prefixes []string // the common prefix that was moved from a column's names to its header
	above    []string // for the lines above the table
	widths   []int
	total    int
}

// fit fits a table to a width, in steps that lose more and more: the common prefix of names moves into the header,
// then above the table, and so does a name that all rows share; then columns are dropped; at last cells are cut, those
// of the widest columns first. It takes a step only if the earlier ones were not enough, so more room never shows
// less.
func (f *fitted) fit(width int) {
	hasNames := slices.ContainsFunc(f.columns, func(c Column) bool { return c.Names })
	f.measure()
	for _, step := range []func(i int){f.foldPrefix, f.raisePrefix, f.raiseName} {
		for i := 0; i < len(f.columns) && f.total > width; {
			columns := len(f.columns)
			if f.columns[i].Names {
				step(i)
				f.measure()
			}
			if len(f.columns) == columns {
				i++
			}
		}
	}
	for f.least(hasNames) > width {
		last := -1
		for i, column := range f.columns {
			if column.Drops > 0 && (last < 0 || column.Drops > f.columns[last].Drops) {
				last = i
			}
		}
		if last < 0 {
			break
		}
		f.drop(last)
		f.measure()
	}
	f.shrink(width)
	for i, prefix := range f.prefixes {
		switch header := f.columns[i].Header + " " + prefix + ellipsis; {
		case prefix == "":
		case Width(header) > f.widths[i]: // the names were cut
			f.above = append(f.above, header)
		default:
			f.columns[i].Header = header
		}
	}
}

// least returns the width to which the cells of a row can be cut. For a table with names it is the width of the whole
// cells: there columns are dropped before a cell is cut.
func (f *fitted) least(hasNames bool) int {
	least := f.total
	for i, column := range f.columns {
		if column.Shrinks > 0 && !hasNames {
			least -= max(0, f.widths[i]-column.Shrinks)
		}
	}
	return least
}

// measure updates the widths of the columns.
func (f *fitted) measure() {
	f.widths, f.total = widthsOf(f.columns, f.rows)
	for i, prefix := range f.prefixes {
		if prefix != "" {
			header := Width(f.columns[i].Header + " " + prefix + ellipsis)
			f.total += max(header-f.widths[i], 0)
			f.widths[i] = max(header, f.widths[i])
		}
	}
}

// foldPrefix moves the common prefix of names into the header.
func (f *fitted) foldPrefix(i int) {
	f.prefixes[i] = textcut.CommonPrefix(f.names(i))
	for row := range f.rows {
		f.rows[row][i].Text = f.rows[row][i].Text[len(f.prefixes[i]):]
	}
}

// raisePrefix moves the common prefix above the table, if it is wider in the header than the names.
func (f *fitted) raisePrefix(i int) {
	header := f.columns[i].Header + " " + f.prefixes[i] + ellipsis
	if f.prefixes[i] != "" && !slices.ContainsFunc(f.names(i), func(name string) bool { return Width(name) >= Width(header) }) {
		f.above = append(f.above, header)
		f.prefixes[i] = ""
	}
}

// raiseName moves a name that all rows share above the table, unless it is in the first column.
func (f *fitted) raiseName(i int) {
	names := f.names(i)
	if i == 0 || len(names) < 2 || slices.ContainsFunc(names, func(name string) bool { return name != names[0] }) {
		return
	}
	begins := func(text string) bool { return strings.HasPrefix(text, f.columns[i].Header+" ") }
	if said := slices.IndexFunc(f.above, begins); said >= 0 { // its prefix
		f.above[said] = strings.TrimSuffix(f.above[said], ellipsis) + names[0]
	} else {
		f.above = append(f.above, f.columns[i].Header+" "+f.prefixes[i]+names[0])
	}
	f.drop(i)
}

func (f *fitted) drop(i int) {
	f.columns = slices.Delete(f.columns, i, i+1)
	f.prefixes = slices.Delete(f.prefixes, i, i+1)
	for row := range f.rows {
		f.rows[row] = slices.Delete(f.rows[row], i, i+1)
	}
}

// names returns the cells of a column.
func (f *fitted) names(i int) []string {
	names := make([]string, len(f.rows))
	for row := range f.rows {
		names[row] = f.rows[row][i].Text
	}
	return names
}

// shrink cuts the cells of columns that shrink, the widest first, and keeps names different.
func (f *fitted) shrink(width int) {
	if f.total <= width {
		return
	}
	for ; f.total > width; f.total-- {
		widest := -1
		for i, column := range f.columns {
			if column.Shrinks > 0 && f.widths[i] > column.Shrinks && (widest < 0 || f.widths[i] > f.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		f.widths[widest]--
	}
	for i, column := range f.columns {
		cut := f.names(i)
		if column.Names {
			_, cut = textcut.Distinct(cut, f.widths[i])
		}
		for row := range f.rows {
			f.rows[row][i].Text = Cut(cut[row], f.widths[i])
		}
	}
}
