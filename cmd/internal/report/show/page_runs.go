package show

import (
	"fmt"
	"math"
	"slices"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
)

func (p *page) overTime(d *report.Document, titles []string) {
	axis, top := latencyAxis(d), 0.0
	for i := range d.Runs {
		top = math.Max(top, highest(&d.Runs[i], d.Kind))
	}
	present := map[string]bool{}
	for i := range d.Runs {
		r := &d.Runs[i]
		one := pageRun{Title: titles[i], Key: runKey(i)}
		var legend []string
		one.Throughput, legend = throughputChart(r, d.Kind, top)
		for _, outcome := range legend {
			present[outcome] = true
		}
		one.Latency = latencyChart(r, axis)
		columns := columnsOf(r, mostColumns)
		one.Coarse = len(columns) > 0 && columns[0].width > report.FromMS(r.IntervalMS)
		p.OverTime = p.OverTime || one.Throughput != ""
		if len(r.Limits) > 1 {
			one.Limits = pageTableOf(limitsTable(r))
		}
		if r.Wrapped != nil {
			one.Wrapped = []string{savedWords(r.Wrapped, r), priceWords(r.Wrapped)}
		}
		p.Runs = append(p.Runs, one)
	}
	for _, outcome := range outcomes {
		if present[outcome.name] {
			p.Legend = append(p.Legend, legendEntry{outcome.name, outcome.name})
		}
	}
	if present[silentLayer] {
		p.Legend = append(p.Legend, legendEntry{silentLayer, "no answer came"})
	}
	p.HasEdges = slices.ContainsFunc(d.Runs, func(r report.Run) bool { return len(r.EdgesMS) > 0 })
}

// keys fills in who was denied: the heat strips and the keys denied most.
func (p *page) keys(d *report.Document) {
	for _, percent := range []float64{0, 25, 50, 75, 100} {
		p.HeatSteps = append(p.HeatSteps, heatCell{Opacity: heat(percent / 100), Text: fmt.Sprintf("%.0f%%", percent)})
	}
	for i := range d.Runs {
		r, one := &d.Runs[i], &p.Runs[i]
		width := 100 / float64(max(len(r.Heat), 1))
		before := int64(0)
		for j, g := range r.Heat {
			who := fmt.Sprintf("keys %s to %s", output.Thousands(before+1), output.Thousands(before+g.Keys))
			if g.Keys == 1 {
				who = "key " + output.Thousands(before+1)
			}
			before += g.Keys
			part := 0.0
			if asked := g.Allowed + g.Denied; asked > 0 {
				part = float64(g.Denied) / float64(asked)
			}
			one.Heat = append(one.Heat, heatCell{rounded(float64(j) * width), rounded(width + 0.05), heat(part),
				fmt.Sprintf("%s by what they asked for: %s, %s denied", who, output.Count(g.Allowed+g.Denied, "request"),
					output.Share(g.Denied, g.Allowed+g.Denied))})
		}
		p.HasHeat = p.HasHeat || len(one.Heat) > 0
		one.HeatGroups = fmt.Sprintf("%s in %s", output.Count(before, "key"), output.Count(int64(len(r.Heat)), "group"))
		most := int64(0)
		for _, k := range r.MostDenied {
			most = max(most, k.Denied)
		}
		for _, k := range r.MostDenied {
			one.MostDenied = append(one.MostDenied, deniedKey{
				Key: Name(k.Key), Denied: output.Thousands(k.Denied), Allowed: output.Thousands(k.Allowed),
				Share: output.Share(k.Denied, k.Denied+k.Allowed), Percent: rounded(100 * float64(k.Denied) / float64(max(most, 1))),
			})
		}
		p.HasMostDenied = p.HasMostDenied || len(one.MostDenied) > 0
	}
}

// heat is how strong the colour of a share is, from 0 to 1. Any denial is visibly more
// than none.
func heat(part float64) float64 {
	if part <= 0 {
		return 0
	}
	return rounded(0.15 + 0.85*math.Min(part, 1))
}
