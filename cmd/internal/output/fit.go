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

// fit makes rows fit the terminal: it drops columns until the rest can fit, then cuts the cells of columns that
// shrink, the widest first. With names it drops columns until nothing has to be cut, and only then cuts. above has
// the common parts of names for which the headers have no room.
func (p *Printer) fit(columns []Column, rows [][]Cell) (fitting []Column, cells [][]Cell, above []string) {
	if p.Width == 0 {
		return columns, rows, nil
	}
	if slices.ContainsFunc(columns, func(c Column) bool { return c.Names }) {
		f := fitNames(columns, rows, p.Width)
		return f.columns, f.rows, f.above
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
	narrow(columns, widths, total, p.Width)
	for _, row := range rows {
		for i := range row {
			row[i].Text = Cut(row[i].Text, widths[i])
		}
	}
	return columns, rows, nil
}

// narrow takes width from the columns that shrink, the widest first, until all fit.
func narrow(columns []Column, widths []int, total, width int) {
	for total > width {
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
}

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

// namesFit is a table with names while it is fitted.
type namesFit struct {
	columns  []Column
	rows     [][]Cell
	prefixes []string // the common prefix that was moved from a column's cells to its header
	above    []string // for the lines above the table
	widths   []int
	total    int
}

// fitNames fits a table with names to a width, in steps that lose more and more: the common prefix of names moves
// into the header, then above the table, and so does a name that all rows share; then columns are dropped; at last
// names and other cells are cut. It takes a step only if the earlier ones were not enough, so more room never shows
// less.
func fitNames(columns []Column, rows [][]Cell, width int) *namesFit {
	f := &namesFit{columns: slices.Clone(columns), rows: make([][]Cell, len(rows)), prefixes: make([]string, len(columns))}
	for i := range rows {
		f.rows[i] = slices.Clone(rows[i])
	}
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
	for f.total > width {
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
	return f
}

// measure updates the widths of the columns.
func (f *namesFit) measure() {
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
func (f *namesFit) foldPrefix(i int) {
	f.prefixes[i] = textcut.CommonPrefix(f.names(i))
	for row := range f.rows {
		f.rows[row][i].Text = f.rows[row][i].Text[len(f.prefixes[i]):]
	}
}

// raisePrefix moves the common prefix above the table, if it is wider in the header than the names.
func (f *namesFit) raisePrefix(i int) {
	header := f.columns[i].Header + " " + f.prefixes[i] + ellipsis
	if f.prefixes[i] != "" && !slices.ContainsFunc(f.names(i), func(name string) bool { return Width(name) >= Width(header) }) {
		f.above = append(f.above, header)
		f.prefixes[i] = ""
	}
}

// raiseName moves a name that all rows share above the table, unless it is in the first column.
func (f *namesFit) raiseName(i int) {
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

func (f *namesFit) drop(i int) {
	f.columns = slices.Delete(f.columns, i, i+1)
	f.prefixes = slices.Delete(f.prefixes, i, i+1)
	for row := range f.rows {
		f.rows[row] = slices.Delete(f.rows[row], i, i+1)
	}
}

// names returns the cells of a column.
func (f *namesFit) names(i int) []string {
	names := make([]string, len(f.rows))
	for row := range f.rows {
		names[row] = f.rows[row][i].Text
	}
	return names
}

// shrink cuts the cells of columns that shrink, the widest first, and keeps names different.
func (f *namesFit) shrink(width int) {
	if f.total <= width {
		return
	}
	narrow(f.columns, f.widths, f.total, width)
	for i, column := range f.columns {
		if column.Names {
			_, cut := textcut.Distinct(f.names(i), f.widths[i])
			for row := range f.rows {
				f.rows[row][i].Text = cut[row]
			}
			continue
		}
		for row := range f.rows {
			f.rows[row][i].Text = Cut(f.rows[row][i].Text, f.widths[i])
		}
	}
}
