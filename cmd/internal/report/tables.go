package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
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
			worstCell(&l.Audit), overCell(l.over()), overCell(l.under())})
	}
	return columns, rows
}

func worstCell(a *Audit) output.Cell {
	cell := output.Cell{Text: ratio(a.WorstWindowRatio), Style: output.Calm}
	switch {
	case a.OverAdmitted > 0 && a.WorstWindowRatio > 1:
		cell.Style = output.AtEnd
	case a.WorstWindowRatio > 1:
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
func (d *Document) comparison() ([]output.Column, [][]output.Cell) {
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
	wrapped := slices.ContainsFunc(d.Runs, func(r Run) bool { return r.Wrapped != nil })
	if wrapped {
		columns = append(columns,
			output.Column{Header: "CALLS SAVED", Right: true, Drops: 10}, output.Column{Header: "HELD BACK", Right: true, Drops: 11})
	}
	denied, top := d.deniedOverTime()
	var rows [][]output.Cell
	for i := range d.Runs {
		r := &d.Runs[i]
		row := []output.Cell{{Text: r.Title()}, {Text: output.Thousands(r.Requests)}, {Text: share(r.Allowed, r.Requests)},
			worstCell(&r.Audit), overCell(r.Audit.over()), overCell(r.Audit.under())}
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
				p50, p99 = micros(r.Latency.P50), micros(r.Latency.P99)
			}
			cost := Cost{}
			if r.Cost != nil {
				cost = *r.Cost
			}
			row = append(row, output.Cell{Text: p50}, output.Cell{Text: p99}, output.Cell{Text: perSecond(r.ThroughputPerS)},
				output.Cell{Text: known(cost.ServerCPU)}, output.Cell{Text: known(cost.BytesPerKey)})
		}
		if wrapped {
			row = append(row, r.Wrapped.cells(r)...)
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// deniedOverTime returns the denied requests over the time of each run, and the most at
// any time of any run, so that all are drawn to one scale.
func (d *Document) deniedOverTime() (denied [][]int64, top int64) {
	const width = 24
	denied = make([][]int64, len(d.Runs))
	for i := range d.Runs {
		for _, c := range d.Runs[i].columnsOf(width) {
			denied[i], top = append(denied[i], c.Denied), max(top, c.Denied)
		}
	}
	return denied, top
}

// known writes a figure, or a dash if it could not be learnt.
func known(figure *float64) string {
	if figure == nil {
		return "-"
	}
	return decimal(*figure)
}
