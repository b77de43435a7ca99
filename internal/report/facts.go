package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// fact is a line of what was run.
type fact struct{ Name, Value string }

// Words are the words of the value. The page breaks a line between them, since a browser would also break it after the
// first hyphen of a flag.
func (f fact) Words() []string { return strings.Fields(f.Value) }

// facts say what was run, where and by what. What all runs have in common is said once.
// Their texts can be shown.
func facts(d *Document) []fact {
	if len(d.Runs) == 0 {
		return nil
	}
	var all []fact
	add := func(label string, of func(*Run) string) {
		value := of(&d.Runs[0])
		for i := range d.Runs {
			if of(&d.Runs[i]) != value {
				value = "differs between the runs"
			}
		}
		if value != "" {
			all = append(all, fact{label, output.Cut(output.Printable(value), longestFact)})
		}
	}
	counted := func(n int64) string {
		if n == 0 {
			return ""
		}
		return output.Thousands(n)
	}
	add("Load", func(r *Run) string { return r.Load })
	add("Scenario", func(r *Run) string { return r.Scenario })
	asked := "Store"
	if d.Runs[0].Endpoint != nil {
		asked = "Endpoint"
	}
	add(asked, func(r *Run) string { return r.Store })
	add("Server", func(r *Run) string { return r.Server })
	add("Keys", func(r *Run) string { return counted(r.Keys) })
	add("Workers", func(r *Run) string { return counted(int64(r.Workers)) })
	add("Seed", func(r *Run) string {
		if r.Seed == nil {
			return ""
		}
		return strconv.FormatUint(*r.Seed, 10)
	})
	add("Duration", func(r *Run) string { return output.Duration(fromMS(r.DurationMS)) })
	first, last := d.Runs[0].StartedAt, d.Runs[len(d.Runs)-1].StartedAt
	if !first.IsZero() {
		started := first.UTC().Format("2006-01-02 15:04:05 UTC")
		if d.Kind == LoadTest && !last.Equal(first) {
			started += ", last run " + last.UTC().Format("15:04:05")
		}
		all = append(all, fact{map[Kind]string{LoadTest: "Started", Simulation: "First request"}[d.Kind], started})
	}
	if o := d.Origin; o != nil {
		all = append(all, fact{"Made by", shortName("limitctl " + o.Version)})
		if o.Host != "" {
			all = append(all, fact{"On", shortName(fmt.Sprintf("%s (%s, %s)", o.Host, o.Platform, output.Count(int64(o.CPUs), "CPU")))})
		}
		all = append(all, fact{"Command", output.Cut(output.Printable(o.Command), longestFact)})
	}
	return all
}

// missedFirst is the thresholds with those first that were missed, and those last that were kept.
func missedFirst(d *Document) []Threshold {
	rank := func(t Threshold) int {
		switch {
		case t.IsMissed():
			return 0
		case !t.OK:
			return 1
		}
		return 2
	}
	thresholds := slices.Clone(d.Thresholds)
	slices.SortStableFunc(thresholds, func(a, b Threshold) int { return rank(a) - rank(b) })
	return thresholds
}
