package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen"
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

func worstCell(a *loadgen.Audit) output.Cell {
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
				{Text: most},
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

// times are the distributions of a run, those that it has.
func inTimes(r *Run) []namedTimes {
	all := []namedTimes{{"latency", r.Latency}, {"service", r.Service}}
	if r.AllowedService != nil && r.DeniedService != nil { // else they are all
		all = append(all, namedTimes{"allowed", r.AllowedService}, namedTimes{"denied", r.DeniedService})
	}
	all = append(all, namedTimes{"lag", r.Lag}, namedTimes{"errors", r.ErrorLatency})
	if r.Endpoint != nil && r.Endpoint.Connections != nil {
		all = append(all, namedTimes{"connect", r.Endpoint.Connections.Connect}, namedTimes{"TLS", r.Endpoint.Connections.TLS})
	}
	return slices.DeleteFunc(all, func(t namedTimes) bool { return t.of == nil })
}

type namedTimes struct {
	name string
	of   *loadgen.Quantiles
}

// timesTable has the distributions of a run, a row for each.
func timesTable(r *Run) (columns []output.Column, rows [][]output.Cell) {
	times := inTimes(r)
	figures := slices.DeleteFunc(timeFigures(), func(f TimeFigure) bool {
		return f.Name == "p9999" && r.Requests < enoughForP9999 ||
			!slices.ContainsFunc(times, func(t namedTimes) bool { _, known := f.Known(t.of); return known })
	})
	columns = []output.Column{{Header: "         "}}
	for _, f := range figures {
		columns = append(columns, output.Column{Header: f.Title, Right: true, Drops: f.drops})
	}
	for _, t := range times {
		row := []output.Cell{{Text: "  " + t.name}}
		for _, f := range figures {
			cell := output.Cell{Text: "-"}
			if us, known := f.Known(t.of); known {
				cell.Text = output.Micros(us)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// mostDeniedTable has the keys that were denied most often.
func mostDeniedTable(r *Run) (columns []output.Column, rows [][]output.Cell) {
	columns = []output.Column{
		{Header: "MOST DENIED", Shrinks: 12}, {Header: "DENIED", Right: true},
		{Header: "ALLOWED", Right: true, Drops: 2}, {Header: "SHARE", Right: true, Drops: 1},
	}
	for _, key := range r.MostDenied {
		rows = append(rows, []output.Cell{
			{Text: key.Key}, {Text: output.Thousands(key.Denied)}, {Text: output.Thousands(key.Allowed)},
			{Text: output.Share(key.Denied, key.Denied+key.Allowed)},
		})
	}
	return columns, rows
}

// mostColumns is how many parts a timeline is drawn in.
const mostColumns = 120

// column is one part of a timeline: counts are summed up over its intervals, of
// latencies it has the worst.
type column struct {
	loadgen.Interval
	width time.Duration
	// covers is how much of the width has intervals: less in the last column, where
	// they do not come out even.
	covers time.Duration
	// warmup: it is of the warm-up, in which answers are only audited.
	warmup bool
}

// columnsOf merges a timeline into at most that many columns.
func columnsOf(r *Run, most int) []column {
	if len(r.Timeline) == 0 {
		return nil
	}
	width := max(r.IntervalMS, 1)
	slots := r.Timeline[len(r.Timeline)-1].OffsetMS/width + 1
	together := (slots + int64(most) - 1) / int64(most)
	columns := make([]column, (slots+together-1)/together)
	for i := range columns {
		columns[i].OffsetMS = int64(i) * together * width
		columns[i].width = fromMS(together * width)
		columns[i].covers = fromMS(min(together, slots-int64(i)*together) * width)
	}
	for _, interval := range r.Timeline {
		c := &columns[min(max(interval.OffsetMS, 0)/width/together, int64(len(columns)-1))]
		c.Add(&interval)
	}
	for i := range columns {
		c := &columns[i]
		c.warmup = c.OffsetMS+c.width.Milliseconds()/2 < r.WarmupMS && c.Allowed+c.Denied+c.Errors+c.Dropped == 0
	}
	return columns
}

// outcomes are the layers of the throughput chart, from the bottom up.
var outcomes = []struct {
	name string
	of   func(*column) int64
}{
	{"allowed", func(c *column) int64 { return c.Allowed }},
	{"denied", func(c *column) int64 { return c.Denied }},
	{"errors", func(c *column) int64 { return c.Errors }},
	{"dropped", func(c *column) int64 { return c.Dropped }},
}

// warmUp is what a timeline calls the warm-up.
const warmUp = "warm-up"

// warmingUp stands for the value of a time of which nothing is counted.
const warmingUp = -1

// sparkline draws values as blocks. Any value above 0 is visible.
func sparkline(values []int64, top int64) string {
	const blocks = "▁▂▃▄▅▆▇█"
	levels := []rune(blocks)
	var b strings.Builder
	for _, value := range values {
		switch {
		case value == warmingUp:
			b.WriteRune('░')
			continue
		case value <= 0:
			b.WriteRune('·')
			continue
		}
		b.WriteRune(levels[int(float64(value)/float64(top)*float64(len(levels)-1)+0.5)])
	}
	return b.String()
}
