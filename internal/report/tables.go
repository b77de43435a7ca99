package report

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// limitsTable is the audit of each limit of a run.
func limitsTable(r *Run) ([]output.Column, [][]output.Cell) {
	columns := []output.Column{{Header: "LIMIT", Shrinks: 12}, {Header: "DENIED", Right: true}, {Header: "WORST",
		Right: true},
		{Header: "OVER", Right: true}, {Header: "UNDER", Right: true, Drops: 1}}
	var rows [][]output.Cell
	for _, l := range r.Limits {
		name := l.Name + " " + l.Limit
		if l.Shadow {
			name += " (shadow)"
		}
		rows = append(rows, []output.Cell{{Text: strings.TrimSpace(name)}, {Text: output.Thousands(l.Denied)},
			worstCell(&l.Audit), overCell(l.OverAdmitted), overCell(l.UnderAdmitted)})
	}
	return columns, rows
}

func worstCell(a *loadgen.Audit) output.Cell {
	cell := output.Cell{Text: output.Ratio(a.WorstRatio)}
	switch {
	case a.OverAdmitted > 0 && a.WorstRatio > 1:
		cell.Style = output.AtEnd
	case a.WorstRatio > 1:
		cell.Style = output.Near
	}
	return cell
}

// overCell is a count of units that should be 0.
func overCell(n int64) output.Cell {
	if n > 0 {
		return output.Cell{Text: output.Thousands(n), Style: output.AtEnd}
	}
	return output.Cell{Text: "0"}
}

// comparison is the table of several runs.
func comparison(d *Document) (columns []output.Column, rows [][]output.Cell) {
	rows = make([][]output.Cell, len(d.Runs))
	add := func(column output.Column, of func(*Run) output.Cell) {
		columns = append(columns, column)
		for i := range d.Runs {
			rows[i] = append(rows[i], of(&d.Runs[i]))
		}
	}
	figure := func(header string, drops int, metric string) {
		add(output.Column{Header: header, Right: true, Drops: drops},
			func(r *Run) output.Cell { return output.Cell{Text: r.shown(metric)} })
	}
	allowed := func(drops int) {
		add(output.Column{Header: "ALLOWED", Right: true, Drops: drops},
			func(r *Run) output.Cell { return output.Cell{Text: output.Share(r.Allowed, r.Requests)} })
		add(output.Column{Header: "WORST", Right: true}, func(r *Run) output.Cell { return worstCell(&r.Audit) })
		if d.Kind == Simulation && d.Runs[0].Wrapped == nil { // it is right
			return
		}
		add(output.Column{Header: "OVER", Right: true}, func(r *Run) output.Cell { return overCell(r.Audit.OverAdmitted) })
		add(output.Column{Header: "UNDER", Right: true, Drops: 4},
			func(r *Run) output.Cell { return overCell(r.Audit.UnderAdmitted) })
	}
	add(output.Column{Header: "LIMIT", Shrinks: 14, Names: true},
		func(r *Run) output.Cell { return output.Cell{Text: r.Title()} })
	if d.Kind == Simulation {
		figure("KEYS DENIED", 0, "denied_keys")
		figure("DENIED", 2, "denied")
		allowed(3)
		add(output.Column{Header: "MOST DENIED", Shrinks: 12, Drops: 8}, func(r *Run) output.Cell {
			if len(r.MostDenied) == 0 {
				return output.Cell{Text: "-"}
			}
			return output.Cell{Text: fmt.Sprintf("%s (%s)", output.Printable(r.MostDenied[0].Key),
				output.Thousands(r.MostDenied[0].Denied))}
		})
	} else {
		figure("REQUESTS", 6, "requests")
		allowed(0)
		figure("p50", 5, "p50")
		figure("p99", 1, "p99")
		figure("THROUGHPUT", 7, "throughput")
	}
	return columns, rows
}

// timesTable has the latency, service and lag of a run, and the service of each outcome if both occurred.
func timesTable(r *Run) (columns []output.Column, rows [][]output.Cell) {
	columns = []output.Column{{Header: "TIME"}}
	for _, f := range timeFigures {
		if f.title != "" {
			columns = append(columns, output.Column{Header: f.title, Right: true, Drops: f.drops})
		}
	}
	for _, times := range distributions[:5] {
		q := times.of(r)
		if q == nil || times.optional && (r.AllowedService == nil || r.DeniedService == nil) {
			continue
		}
		row := []output.Cell{{Text: times.name}}
		for _, f := range timeFigures {
			if f.title != "" {
				row = append(row, output.Cell{Text: output.Micros(f.of(q))})
			}
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// mostDeniedTable has the keys that were denied most often.
func mostDeniedTable(keys []KeyCount) (columns []output.Column, rows [][]output.Cell) {
	columns = []output.Column{
		{Header: "MOST DENIED", Shrinks: 12}, {Header: "DENIED", Right: true},
		{Header: "ALLOWED", Right: true, Drops: 2}, {Header: "SHARE", Right: true, Drops: 1},
	}
	for _, key := range keys {
		rows = append(rows, []output.Cell{
			{Text: key.Key}, {Text: output.Thousands(key.Denied)}, {Text: output.Thousands(key.Allowed)},
			{Text: output.Share(key.Denied, key.Denied+key.Allowed)},
		})
	}
	return columns, rows
}
