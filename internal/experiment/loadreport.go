package experiment

import (
	"fmt"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// report puts the result of a run in the terms of a report.
func (r *loadRun) report(result *loadgen.Result, target Description, l *workload) *report.Run {
	run := &report.Run{Figures: r.figures(result, l)}
	l.audited().describe(run, result.Findings)
	run.Store, run.Server, run.Implementation = target.Name, target.Server, target.Implementation
	run.Seed = &r.Load.Seed
	run.Workers, run.StartedAt, run.IntervalMS = r.Load.Workers, result.Started.UTC(), result.Interval.Milliseconds()
	run.Histograms = histogramsOf(result, r.Load.IsClosed())
	run.Load, run.Rate = r.Load.Words, r.Load.Rate
	if r.Load.Scenario != nil {
		run.Scenario = r.Load.Scenario.Name
	}
	if r.candidate.Policy != nil {
		run.Policy = r.candidate.Policy.Name
	}
	for _, i := range result.Timeline {
		run.Timeline = append(run.Timeline, report.Interval{
			OffsetMS: i.Offset.Milliseconds(), Allowed: i.Allowed, Denied: i.Denied, Errors: i.Errors, Dropped: i.Dropped,
			P50: i.P50.Microseconds(), P99: i.P99.Microseconds(), Max: i.Max.Microseconds(),
		})
	}
	describeKeys(run, result.Tally, l.population.nameOf)
	if run.Scenario == loadgen.NoisyNeighbour {
		run.Neighbours = neighboursOf(result.Tally)
	}
	run.ErrorTexts = report.Commonest(result.ErrorTexts)
	run.Warnings = r.warnings(run, result, target, l)
	for i := range run.Limits {
		if units := run.Limits[i].UnderIfFree; units > 0 {
			run.Warnings = append(run.Warnings, fmt.Sprintf("there was room for %s that %s denied, unless denied requests are charged as "+
				"well, as many limiters do; they are not counted as under-admitted", output.Plural(int(units), "unit"), run.Limits[i].Name))
		}
	}
	return run
}

// histogramsOf returns the distributions of a run's times.
func histogramsOf(result *loadgen.Result, closed bool) *report.Histograms {
	h := &report.Histograms{Latency: result.Latency, Service: result.Service, Errors: result.ErrorLatency}
	if !closed {
		h.Lag = result.Lag
	}
	return h
}

// neighboursOf is what became of the requests of all but the noisy one.
func neighboursOf(tally *loadgen.Tally) *report.KeyCount {
	noisy := tally.Of(loadgen.NoisySubject)
	return &report.KeyCount{Key: "all others", Allowed: tally.Allowed() - noisy.Allowed, Denied: tally.Denied() - noisy.Denied}
}

// warnings are what a reader must know about the figures of a run.
func (r *loadRun) warnings(run *report.Run, result *loadgen.Result, target Description, l *workload) []string {
	var all []string
	if warning := r.tooFewWorkers(result, run.GeneratorLimited); warning != "" {
		all = append(all, warning)
	}
	for i := range l.limits {
		if mixed := l.population.MixedKeys(i); mixed > 0 {
			all = append(all, mixedWarning(mixed, l.limits[i].name))
			run.Limits[i].Doubtful = true
		}
	}
	if target.Divided && len(l.limits) > 1 && run.Audit.UnderAdmitted > 0 {
		all = append(all, "limits of different subjects lie in different slots of the Cluster, and are taken one after the other; "+
			"units that are given back when a later limit denies were denied to others in the meantime, "+
			"and these are the units under-admitted")
		for i := range run.Limits {
			run.Limits[i].UnderExplained = true
		}
	}
	if n := result.Clock.Unreported; n > 0 {
		all = append(all, fmt.Sprintf("%s did not say when they were decided; the audit takes the time of their "+
			"arrival, and may be wrong about them", output.Plural(int(n), "answer")))
		for i := range run.Limits {
			run.Limits[i].Doubtful = true
		}
	}
	if n := result.ClockWentBack; n > 0 {
		all = append(all, fmt.Sprintf("the store's clock went back: %d answers have an earlier time than answers that "+
			"came before their requests were sent, and the audit may be wrong about them", n))
		for i := range run.Limits {
			run.Limits[i].Doubtful = true
		}
	}
	return all
}

// tooFewWorkers says that requests of an open loop waited for a worker, if those were
// enough to make a difference and the generator was not the limit anyway.
func (r *loadRun) tooFewWorkers(result *loadgen.Result, generatorLimited bool) string {
	if r.Load.IsClosed() || generatorLimited || result.Waited <= result.Requests/100 {
		return ""
	}
	asked := "store"
	if r.Endpoint != nil {
		asked = "endpoint"
	}
	return fmt.Sprintf("%s found no worker free; the latency includes the wait. Either the %s is at its limit, or %s are too few",
		output.Plural(int(result.Waited), "request"), asked, output.Plural(r.Load.Workers, "worker"))
}

// mixedWarning says that overrides make a limit's audit doubtful.
func mixedWarning(keys int, limit string) string {
	return fmt.Sprintf("%s of the limit %s had different limits at different times, because an override depends on an attribute "+
		"that is not part of the key; the audit judges each of them by its first limit", output.Plural(keys, "key"), limit)
}
