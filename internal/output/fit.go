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
