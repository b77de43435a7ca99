package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// limitsTable is the audit of each limit of a run.
func limitsTable(r *Run) ([]output.Column, [][]output.Cell) {
	columns := []output.Column{{Header: "LIMIT", Shrinks: 12}, {Header: "DENIED", Right: true}, {Header: "WORST", Right: true},
		{Header: "OVER", Right: true}, {Header: "UNDER", Right: true, Drops: 1}}
	var rows [][]output.Cell
	for _, l := range r.Limits {
		name := l.Name + " " + l.Limit
		if l.Shadow {
			name += " (shadow)"
		}
		rows = append(rows, []output.Cell{{Text: strings.TrimSpace(name)}, {Text: output.Thousands(l.Denied)},
			worstCell(&l.Audit), overCell(l.Over()), overCell(l.Under())})
	}
	return columns, rows
}

func worstCell(a *Audit) output.Cell {
	cell := output.Cell{Text: output.Ratio(a.WorstRatio), Style: output.Calm}
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

// deniedOverTimeHeader is the column of a terminal's table that draws denials over time.
const deniedOverTimeHeader = "DENIED OVER TIME"

// comparison is the table of several runs.
func comparison(d *Document) ([]output.Column, [][]output.Cell) {
	columns := []output.Column{
		{Header: "LIMIT", Shrinks: 14}, {Header: "REQUESTS", Right: true, Drops: 6}, {Header: "ALLOWED", Right: true},
		{Header: "WORST", Right: true}, {Header: "OVER", Right: true}, {Header: "UNDER", Right: true, Drops: 4},
	}
	if d.Kind == Simulation {
		columns = append(columns, []output.Column{
			{Header: "DENIED", Right: true, Drops: 2}, {Header: "KEYS", Right: true, Drops: 7},
			{Header: "KEYS DENIED", Right: true, Drops: 3}, {Header: "MOST DENIED", Shrinks: 12, Drops: 8},
			{Header: deniedOverTimeHeader, Drops: 9},
		}...)
	} else {
		columns = append(columns, []output.Column{
			{Header: "p50", Right: true, Drops: 5}, {Header: "p99", Right: true, Drops: 1},
			{Header: "THROUGHPUT", Right: true, Drops: 7}, {Header: "SERVER µs", Right: true, Drops: 8},
			{Header: "BYTES/KEY", Right: true, Drops: 9},
		}...)
	}
	wrapped := d.Runs[0].Wrapped != nil
	if wrapped {
		columns = append(columns,
			output.Column{Header: "CALLS SAVED", Right: true, Drops: 10}, output.Column{Header: "DIFFERENTLY", Right: true, Drops: 11})
	}
	denied, top := deniedOverTime(d)
	var rows [][]output.Cell
	for i := range d.Runs {
		r := &d.Runs[i]
		row := []output.Cell{{Text: r.Title()}, {Text: output.Thousands(r.Requests)}, {Text: output.Share(r.Allowed, r.Requests)},
			worstCell(&r.Audit), overCell(r.Audit.Over()), overCell(r.Audit.Under())}
		if d.Kind == Simulation {
			most := "-"
			if len(r.MostDenied) > 0 {
				most = fmt.Sprintf("%s (%s)", output.Printable(r.MostDenied[0].Key), output.Thousands(r.MostDenied[0].Denied))
			}
			row = append(row, []output.Cell{
				{Text: output.Thousands(r.Denied)}, {Text: output.Thousands(r.Keys)}, {Text: output.Thousands(r.KeysDenied)},
				{Text: most}, {Text: sparkline(denied[i], top)},
			}...)
		} else {
			p50, p99 := "-", "-"
			if r.Latency != nil {
				p50, p99 = output.Micros(r.Latency.P50), output.Micros(r.Latency.P99)
			}
			cost := Cost{}
			if r.Cost != nil {
				cost = *r.Cost
			}
			row = append(row, output.Cell{Text: p50}, output.Cell{Text: p99}, output.Cell{Text: output.PerSecond(r.ThroughputPerS)},
				output.Cell{Text: known(cost.ServerCPU)}, output.Cell{Text: known(cost.BytesPerKey)})
		}
		if wrapped {
			row = append(row, cells(r.Wrapped)...)
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// withoutSparklines leaves out the column that draws with letters, which only a terminal shows well.
func withoutSparklines(columns []output.Column, rows [][]output.Cell) ([]output.Column, [][]output.Cell) {
	if i := slices.IndexFunc(columns, func(c output.Column) bool { return c.Header == deniedOverTimeHeader }); i >= 0 {
		columns = slices.Delete(columns, i, i+1)
		for j := range rows {
			rows[j] = slices.Delete(rows[j], i, i+1)
		}
	}
	return columns, rows
}

// known writes a figure, or a dash if it could not be learnt.
func known(figure *float64) string {
	if figure == nil {
		return "-"
	}
	return output.Decimal(*figure)
}

// cells are the part of calls that was saved, and the requests decided differently, for a table of several runs.
func cells(w *Wrapped) []output.Cell {
	if w == nil {
		w = new(Wrapped)
	}
	return []output.Cell{{Text: fmt.Sprintf("%.1f%%", 100*max(0, 1-w.CallsPerDecision))},
		{Text: output.Thousands(w.AllowedBesides + w.DeniedBesides)}}
}
