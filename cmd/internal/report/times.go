package report

// timeFigure is a quantile of times, their mean or their maximum.
type timeFigure struct {
	// name is as in JSON and in thresholds, and title as in tables.
	name, title string
	// quantile is which one it is, from 0 to 1; 0 for the mean.
	quantile float64
	of       func(*Quantiles) int64
}

// timeFigures returns all figures of a distribution of times, in the order of tables.
func timeFigures() []timeFigure {
	return []timeFigure{
		{"mean", "mean", 0, func(q *Quantiles) int64 { return q.Mean }},
		{"p50", "p50", 0.5, func(q *Quantiles) int64 { return q.P50 }},
		{"p90", "p90", 0.9, func(q *Quantiles) int64 { return q.P90 }},
		{"p95", "p95", 0.95, func(q *Quantiles) int64 { return q.P95 }},
		{"p99", "p99", 0.99, func(q *Quantiles) int64 { return q.P99 }},
		{"p999", "p99.9", 0.999, func(q *Quantiles) int64 { return q.P999 }},
		{"p9999", "p99.99", 0.9999, func(q *Quantiles) int64 { return q.P9999 }},
		{"max", "max", 1, func(q *Quantiles) int64 { return q.Max }},
	}
}

// known returns the figure in microseconds, if there are times and the document has it:
// some were added later. Times are 1 µs or more.
func (f *timeFigure) known(q *Quantiles) (us int64, known bool) {
	if q == nil {
		return 0, false
	}
	us = f.of(q)
	return us, us > 0 || q.Max == 0
}

// enoughForP9999 is from how many requests on the 99.99th percentile says more than the
// maximum.
const enoughForP9999 = 10_000
