package report

import (
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// fold prints a table. On a terminal that is too narrow for all columns it prints several,
// one below the other, each with the first column, so that nothing is left out.
func fold(p *output.Printer, columns []output.Column, rows [][]output.Cell) {
	if p.Width == 0 || output.TableWidth(columns, rows) <= p.Width {
		p.Table(columns, rows)
		return
	}
	const gap = 2
	widthOf := func(i int) int {
		cells := make([][]output.Cell, len(rows))
		for j := range rows {
			cells[j] = []output.Cell{{Text: output.Printable(rows[j][i].Text)}}
		}
		return output.TableWidth(columns[i:i+1], cells)
	}
	// The first column leaves room for another one, and is cut where it has to be.
	first := min(widthOf(0), max(columns[0].Shrinks, p.Width/2))
	for from := 1; from < len(columns); {
		to, width := from, first
		for to < len(columns) && (to == from || width+gap+widthOf(to) <= p.Width) {
			width += gap + widthOf(to)
			to++
		}
		some := []output.Column{columns[0]}
		for _, column := range columns[from:to] {
			column.Drops = 0
			some = append(some, column)
		}
		part := make([][]output.Cell, len(rows))
		for i, row := range rows {
			part[i] = append([]output.Cell{row[0]}, row[from:to]...)
		}
		p.Table(some, part)
		if from = to; from < len(columns) {
			p.Line("")
		}
	}
}
