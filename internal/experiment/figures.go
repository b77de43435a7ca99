package experiment

import (
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// figures are the numbers of a result that promises can be about, all but its cost.
func (r *loadRun) figures(result *loadgen.Result, l *workload) report.Figures {
	elapsed := output.Milliseconds(result.Elapsed)
	f := report.Figures{
		Requests: result.Requests, Allowed: result.Allowed, Denied: result.Denied,
		Errors: result.Errors, Unknown: result.Unknown, TimedOut: result.TimedOut, Dropped: result.Dropped,
		Late: result.Late, LateAfterMS: lateAfter.Milliseconds(),
		Keys: result.Tally.Keys(), KeysDenied: result.Tally.KeysDenied(),
		DurationMS: elapsed, WarmupMS: min(output.Milliseconds(r.Load.Warmup), elapsed),
		Latency: report.QuantilesOf(result.Latency), Service: report.QuantilesOf(result.Service),
		AllowedService: report.QuantilesOf(result.AllowedService), DeniedService: report.QuantilesOf(result.DeniedService),
		ErrorLatency: report.QuantilesOf(result.ErrorLatency),
		Audit:        l.audited().audit(result.Findings, l.audited().decides),
	}
	if c := result.Clock; c.Held > 0 || c.Unreported > 0 {
		f.Clock = &report.StoreClock{
			Held: c.Held, Unreported: c.Unreported, AheadMS: report.InMS(c.Ahead), Drift: c.Drift,
			Jumps: c.Jumps, Astray: c.Astray, FarthestMS: report.InMS(c.Farthest), CoarseMS: report.InMS(c.Coarse),
		}
	}
	if !r.Load.IsClosed() {
		f.Lag = report.QuantilesOf(result.Lag)
		f.GeneratorLimited = result.GeneratorLimited()
	}
	if counted := result.Elapsed - r.Load.Warmup; counted > 0 {
		f.ThroughputPerS = float64(result.Allowed+result.Denied) / counted.Seconds()
	}
	return f
}

// audited is the limits of a run.
type audited struct {
	limits []namedLimit
	// keyOf names a key of a limit by its index; nil if nobody knows.
	keyOf func(limit int, index uint32) store.Key
}

// audit sums up what the audits of some limits found.
func (a *audited) audit(findings []audit.Finding, wanted func(i int) bool) report.Audit {
	sum := report.Audit{Fairness: 1}
	for i := range a.limits {
		if wanted(i) {
			sum.Add(&findings[i], func(key uint32) string {
				if a.keyOf == nil {
					return ""
				}
				return a.keyOf(i, key).Subject
			})
		}
	}
	return sum
}

// decides reports whether a limit is no shadow.
func (a *audited) decides(i int) bool { return !a.limits[i].shadow }

// describe fills in what the limits of a run are, and what their audits found.
func (a *audited) describe(run *report.Run, findings []audit.Finding) {
	for i, l := range a.limits {
		run.Limits = append(run.Limits, report.Limit{
			Name: l.name, Algorithm: l.limit.Algorithm.String(), Limit: l.limit.String(), Shadow: l.shadow,
			Denied: findings[i].Denied, Audit: a.audit(findings, func(j int) bool { return i == j }),
		})
	}
	run.Algorithm, run.Limit = algorithmWords(a.limits), limitWords(a.limits)
	run.Audit = a.audit(findings, a.decides)
}

// algorithmWords writes the algorithms of limits that are decided together, each once.
func algorithmWords(limits []namedLimit) string {
	var algorithms []string
	for _, l := range limits {
		if algorithm := l.limit.Algorithm.String(); !slices.Contains(algorithms, algorithm) {
			algorithms = append(algorithms, algorithm)
		}
	}
	return strings.Join(algorithms, "+")
}

// limitWords writes limits that are decided together.
func limitWords(limits []namedLimit) string {
	var texts []string
	for _, l := range limits {
		text := l.limit.String()
		if l.shadow {
			text += " (shadow)"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " and ")
}

// describeKeys fills in what became of the subjects of a run. nameOf is what to call one.
func describeKeys(run *report.Run, tally *loadgen.Tally, nameOf func(subject uint32) string) {
	run.Busiest, run.MostDenied = tally.Busiest(), mostDenied(tally, nameOf)
}

func mostDenied(tally *loadgen.Tally, nameOf func(subject uint32) string) []report.KeyCount {
	most := []report.KeyCount{}
	for _, count := range tally.MostDenied(report.MostDeniedKeys) {
		most = append(most, report.KeyCount{Key: nameOf(count.Subject), Allowed: count.Allowed, Denied: count.Denied})
	}
	return most
}

// toEdge returns how long after an instant the window that holds it ends.
func toEdge(limit *store.Limit, at time.Time) time.Duration {
	if end, has := limit.WindowEnd(store.InstantOf(at)); has {
		return end.Sub(at)
	}
	return limit.Period - time.Duration(at.UnixNano()%int64(limit.Period))
}
