package report

import (
	"strings"
	"time"
)

// mostColumns is how many parts a timeline is drawn in.
const mostColumns = 120

// column is one part of a timeline: counts are summed up over its intervals, of
// latencies it has the worst.
type column struct {
	Interval
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

// deniedOverTime returns the denied requests over the time of each run, and the most at
// any time of any run, so that all are drawn to one scale.
func deniedOverTime(d *Document) (denied [][]int64, top int64) {
	const width = 24
	denied = make([][]int64, len(d.Runs))
	for i := range d.Runs {
		for _, c := range columnsOf(&d.Runs[i], width) {
			denied[i], top = append(denied[i], c.Denied), max(top, c.Denied)
		}
	}
	return denied, top
}
