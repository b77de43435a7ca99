package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Load says which requests a load test sends, and when: by Stages or a Scenario. Without any of them the load is a
// closed loop: each worker sends a request when its last one is answered.
type Load struct {
	// Stages are rates of arrival over time.
	Stages   []loadgen.Stage
	Scenario *loadgen.Scenario

	// Subjects is how many subjects ask.
	Subjects int
	// Mix says who asks, and for how much. Scenarios say that themselves.
	Mix loadgen.Mix
	// Seed is what random numbers follow from: the same seed gives the same requests.
	Seed uint64

	// Workers is how many requests may be under way at once.
	Workers int
	// Duration is how long requests are sent. Without it stages and scenarios go on to their own end; the other loads
	// need it.
	Duration time.Duration
	// Requests, if it is not 0, is the most requests to send.
	Requests int64
	// Warmup is how long, at the beginning, requests are audited but neither counted nor timed.
	Warmup time.Duration

	// Words describe the load, for the report, and Rate is how many requests a second it asks for on average, 0 for a
	// closed loop.
	Words string
	Rate  float64
}

// IsClosed reports whether the load is a closed loop.
func (l *Load) IsClosed() bool {
	return len(l.Stages) == 0 && l.Scenario == nil
}

// Arrivals returns the requests of one run. It is nil for a closed loop.
func (l *Load) Arrivals(setting loadgen.Setting) loadgen.Load {
	switch {
	case l.IsClosed():
		return nil
	case l.Scenario != nil:
		return l.Scenario.Load(setting)
	}
	return loadgen.NewLoad(l.Stages, l.Mix, l.Seed)
}

// length is how long requests are sent, and 0 if that is known only when the run begins.
func (l *Load) length() time.Duration {
	if l.Duration > 0 {
		return l.Duration
	}
	return loadgen.Length(l.Stages)
}

// MaxDuration is the longest that a load test goes on.
const MaxDuration = 31 * 24 * time.Hour

// checkWarmup reports whether something is left to count of a run of that length.
func (l *Load) checkWarmup(length time.Duration) error {
	if l.Warmup > 0 && l.Warmup >= length {
		return store.Invalidf("--warmup %s leaves nothing to count of a run of %s; make it shorter",
			store.FormatPeriod(l.Warmup),
			output.Duration(length))
	}
	return nil
}

// maxAtOnce is how many requests a scenario may send at once: no store answers more in the time that it has for them.
const maxAtOnce = 1_000_000

// check reports what of the load can never work under a candidate whose greatest possible cost is most.
func (l *Load) check(setting loadgen.Setting, most int64) error {
	if asked := l.Mix.Costs.Most; asked > most {
		return store.Invalidf("--cost asks for %d units at once, and the limit never allows more than %d; lower it",
			asked, most)
	}
	if l.Scenario == nil {
		return nil
	}
	if n := l.Scenario.AtOnce(setting); n > maxAtOnce {
		return store.Invalidf("--scenario %s sends %d requests at once to %s over %s, and %d is the most there can "+
			"be; "+
			"use a smaller limit or fewer keys", l.Scenario.Name, n, setting.Limit,
			output.Count(setting.Subjects, "key"), maxAtOnce)
	}
	return nil
}

// Reach raises the load to a rate at which each subject has used up a limit of each candidate after half of the
// duration, so that the audit has something to find. More than most requests a second it leaves to those who ask for
// them. A shadow does not count.
func (l *Load) Reach(candidates []Candidate, most float64) {
	for i := range candidates {
		least := math.Inf(1)
		for _, of := range candidates[i].limits() {
			if !of.shadow {
				units := 2*float64(of.limit.Capacity())/l.Duration.Seconds() +
					float64(of.limit.Count)/of.limit.Period.Seconds()
				cost := float64(l.Mix.Costs.Least+l.Mix.Costs.Most) / 2
				least = min(least, math.Ceil(units/cost/10)*10*float64(l.Subjects))
			}
		}
		if least <= most {
			l.Rate = max(l.Rate, least)
		}
	}
}

// report puts the result of a run in the terms of a report.
func (r *loadRun) report(result *loadgen.Result, target Description) *report.Run {
	run := newRun(result, r.candidate, r.population.nameOf)
	run.Store, run.Server, run.Implementation = target.Name, target.Server, target.Implementation
	run.Seed, run.Workers, run.Load, run.Rate = &r.Load.Seed, r.Load.Workers, r.Load.Words, r.Load.Rate
	if r.Load.Scenario != nil {
		run.Scenario = r.Load.Scenario.Name
	}
	r.warn(run, target)
	warnOfLimits(run, r.population.MixedKeys)
	return run
}

// warn adds what a reader must know about the figures of a run, and marks the limits that it makes doubtful.
func (r *loadRun) warn(run *report.Run, target Description) {
	if n := run.Waited; !r.Load.IsClosed() && !run.GeneratorLimited && n > run.Requests/100 {
		why := fmt.Sprintf("Either the other side is at its limit, or --workers %d is too few", r.Load.Workers)
		if run.TimedOut > run.Requests/2 {
			why = "The other side does not answer in time"
		}
		warn(run, "%s found no worker free; the latency includes the wait. %s", output.Count(int(n), "request"), why)
	}
	if target.Divided && len(run.Limits) > 1 && run.Audit.UnderAdmitted > 0 {
		warn(run, "limits of different subjects lie in different slots of the Cluster, and are taken one after the "+
			"other; units that are given back when a later limit denies were denied to others in the meantime, and "+
			"these are the units under-admitted")
		for i := range run.Limits {
			run.Limits[i].UnderExplained = true
		}
	}
	sound := len(run.Warnings)
	if run.Clock != nil && run.Clock.Unreported > 0 {
		warn(run, "%s did not say when they were decided; the audit takes the time of their arrival, and may be wrong "+
			"about them", output.Count(int(run.Clock.Unreported), "answer"))
	}
	if n := run.ClockWentBack; n > 0 {
		warn(run, "the store's clock went back: %d answers have an earlier time than answers that came before their "+
			"requests were sent, and the audit may be wrong about them", n)
	}
	for i := range run.Limits {
		run.Limits[i].Doubtful = run.Limits[i].Doubtful || len(run.Warnings) > sound
	}
}

// warn adds a warning to a report.
func warn(run *report.Run, format string, values ...any) {
	run.Warnings = append(run.Warnings, fmt.Sprintf(format, values...))
}

// warnOfLimits warns of denials that had no reason if denied requests are free, and of limits whose audits overrides
// make doubtful, which it marks.
func warnOfLimits(run *report.Run, mixedKeys func(limit int) int) {
	for i := range run.Limits {
		l := &run.Limits[i]
		if keys := mixedKeys(i); keys > 0 {
			l.Doubtful = true
			warn(run, "%s of the limit %s had different limits at different times, because an override depends on an "+
				"attribute that is not part of the key; the audit judges each of them by its first limit",
				output.Count(keys, "key"), l.Name)
		}
		if l.UnderIfFree > 0 {
			warn(run, "there was room for %s that %s denied, unless denied requests are charged as well, as many "+
				"limiters do; they are not counted as under-admitted", output.Count(int(l.UnderIfFree), "unit"), l.Name)
		}
	}
}

// newRun puts a result in the terms of a report, with what was tried. nameOf is what to call a subject.
func newRun(result *loadgen.Result, c *Candidate, nameOf func(subject uint32) string) *report.Run {
	run := &report.Run{Result: *result, MostDenied: mostDenied(result.Tally, nameOf)}
	var algorithms, texts []string
	for i, l := range c.limits() {
		is, text := &run.Limits[i], l.limit.String()
		is.Name, is.Algorithm, is.Limit, is.Shadow = l.name, l.limit.Algorithm.String(), text, l.shadow
		if !slices.Contains(algorithms, is.Algorithm) {
			algorithms = append(algorithms, is.Algorithm)
		}
		if l.shadow {
			text += " (shadow)"
		}
		texts = append(texts, text)
	}
	run.Algorithm, run.Limit = strings.Join(algorithms, "+"), strings.Join(texts, " and ")
	if c.Policy != nil {
		run.Policy = c.Policy.Name
	}
	return run
}

// mostDenied is the subjects that were denied most often; nameOf is what to call one.
func mostDenied(tally *loadgen.Tally, nameOf func(subject uint32) string) []report.KeyCount {
	most := []report.KeyCount{}
	for _, count := range tally.MostDenied(report.MostDeniedKeys) {
		most = append(most, report.KeyCount{Key: nameOf(count.Subject), Allowed: count.Allowed, Denied: count.Denied})
	}
	return most
}
