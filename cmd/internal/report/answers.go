package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Answers is the requests that one decider answered.
type Answers struct {
	// DecidedBy is the decider, in the words of a decision: "store", "local",
	// "denial-memory", "lease", "override" or "failure-policy".
	DecidedBy string `json:"decided_by"`
	Allowed   int64  `json:"allowed" merge:"sum"`
	Denied    int64  `json:"denied" merge:"sum"`
	// Latency is from when these requests were due to their answers.
	Latency *Quantiles `json:"latency_us,omitempty"`
}

// mostDeciders is how many of them a report tells apart at most.
const mostDeciders = 16

// by returns what one decider answered, nil if that is nothing.
func (f *Figures) by(decider store.Decider) *Answers {
	i := slices.IndexFunc(f.ByDecider, func(a Answers) bool { return a.DecidedBy == decider.String() })
	if i < 0 {
		return nil
	}
	return &f.ByDecider[i]
}

// latencyBy is the latency of what one decider answered, nil if that is nothing.
func (f *Figures) latencyBy(decider store.Decider) *Quantiles {
	if a := f.by(decider); a != nil {
		return a.Latency
	}
	return nil
}

// isMixed reports whether the requests were not all decided by the store.
func (f *Figures) isMixed() bool {
	return f.Errors > 0 || slices.ContainsFunc(f.ByDecider, func(a Answers) bool { return a.DecidedBy != store.DecidedByStore.String() })
}

// answersInWords says what became of the requests.
func (f *Figures) answersInWords() string {
	if f.Requests == 0 {
		return "none: no request was sent"
	}
	text := fmt.Sprintf("%s: %s allowed (%s), %s denied (%s)", requests(f.Requests),
		output.Thousands(f.Allowed), share(f.Allowed, f.Requests), output.Thousands(f.Denied), share(f.Denied, f.Requests))
	for _, other := range []struct {
		words string
		n     int64
	}{{"decided locally", f.Local}, {"unguarded", f.Unguarded}, {"failed", f.Errors}} {
		if other.n > 0 {
			text += fmt.Sprintf(", %s %s (%s)", output.Thousands(other.n), other.words, share(other.n, f.Requests))
		}
	}
	return text
}

// deciderTable shows who answered how many requests, and how fast. Errors are a row of
// it.
func deciderTable(f *Figures) ([]output.Column, [][]output.Cell) {
	columns := []output.Column{
		{Header: "DECIDED BY"}, {Header: "REQUESTS", Right: true}, {Header: "ALLOWED", Right: true, Drops: 3},
		{Header: "DENIED", Right: true, Drops: 4}, {Header: "p50", Right: true, Drops: 2}, {Header: "p99", Right: true},
		{Header: "max", Right: true, Drops: 1},
	}
	var rows [][]output.Cell
	add := func(name string, n int64, allowed, denied string, q *Quantiles, style output.Style) {
		row := []output.Cell{{Text: name, Style: style}, {Text: output.Thousands(n)}, {Text: allowed}, {Text: denied}}
		if q == nil { // in a simulation nothing takes time
			rows = append(rows, append(row, output.Cell{Text: "-"}, output.Cell{Text: "-"}, output.Cell{Text: "-"}))
			return
		}
		for _, us := range []int64{q.P50, q.P99, q.Max} {
			row = append(row, output.Cell{Text: micros(us)})
		}
		rows = append(rows, row)
	}
	for _, a := range f.ByDecider {
		style := output.Plain
		if a.DecidedBy == store.DecidedByLocal.String() || a.DecidedBy == store.DecidedByFailurePolicy.String() {
			style = output.Near
		}
		add(output.Printable(a.DecidedBy), a.Allowed+a.Denied, output.Thousands(a.Allowed), output.Thousands(a.Denied), a.Latency, style)
	}
	if f.Errors > 0 {
		add("error", f.Errors, "-", "-", f.ErrorLatency, output.AtEnd)
	}
	return columns, rows
}

// mergeAnswers adds up what the deciders answered.
func (r *Run) mergeAnswers(parts []part) error {
	for _, p := range parts {
		for _, a := range p.ByDecider {
			i := slices.IndexFunc(r.ByDecider, func(b Answers) bool { return a.DecidedBy == b.DecidedBy })
			if i < 0 {
				i = len(r.ByDecider)
				r.ByDecider = append(r.ByDecider, Answers{DecidedBy: a.DecidedBy})
			}
			addUp(&r.ByDecider[i], &a)
		}
	}
	for i := range r.ByDecider {
		by := r.ByDecider[i].DecidedBy
		merged, err := mergeHistograms(parts, func(p part) (*hdrhistogram.Histogram, bool) {
			has := slices.ContainsFunc(p.ByDecider, func(a Answers) bool { return a.DecidedBy == by && a.Latency != nil })
			if p.Histograms == nil {
				return nil, has
			}
			return p.Histograms.ByDecider[by], has
		})
		if err != nil {
			return err
		}
		if merged != nil {
			r.Histograms.ByDecider[by], r.ByDecider[i].Latency = merged, QuantilesOf(merged)
		}
	}
	slices.SortFunc(r.ByDecider, func(a, b Answers) int { return cmp.Compare(a.DecidedBy, b.DecidedBy) })
	return nil
}
