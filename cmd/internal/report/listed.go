package report

import (
	"cmp"
	"slices"
)

// Named is a document and the file that it is from.
type Named struct {
	Name string
	*Document
}

// The most of each that a document lists.
const (
	MostDeniedKeys = 10
	mostErrorTexts = 5
)

// Add adds the counts of another interval, and takes over the worse of its latencies.
func (i *Interval) Add(other *Interval) {
	i.Allowed += other.Allowed
	i.Denied += other.Denied
	i.Errors += other.Errors
	i.Dropped += other.Dropped
	i.P50, i.P99, i.Max = max(i.P50, other.P50), max(i.P99, other.P99), max(i.Max, other.Max)
}

// Commonest returns the errors that there were most often.
func Commonest(texts map[string]int64) (all []ErrorCount) {
	for text, count := range texts {
		all = append(all, ErrorCount{text, count})
	}
	slices.SortFunc(all, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	return all[:min(len(all), mostErrorTexts)]
}
