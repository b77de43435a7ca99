package trial

import (
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// figures are the numbers of a result that promises can be about, all but its cost.
func (r *loadRun) figures(result *loadgen.Result, l *workload) report.Figures {
	elapsed := output.Milliseconds(result.Elapsed)
	f := report.Figures{
		Requests: result.Requests, Allowed: result.Allowed, Denied: result.Denied,
		Local: result.Local, Unguarded: result.Unguarded, Errors: result.Errors, Unknown: result.Unknown, Dropped: result.Dropped,
		Late: result.Late, LateAfterMS: lateAfter.Milliseconds(),
		Keys: result.Tally.Keys(), KeysDenied: result.Tally.KeysDenied(),
		DurationMS: elapsed, WarmupMS: min(output.Milliseconds(r.Load.Warmup), elapsed),
		Latency: report.QuantilesOf(result.Latency), Service: report.QuantilesOf(result.Service),
		ErrorLatency: report.QuantilesOf(result.ErrorLatency),
		Audit:        l.audited().audit(result.Findings),
	}
	if r.Shared != nil {
		f.Alone()
	}
	if c := result.Clock; c.Held > 0 || c.Untold > 0 {
		f.Clock = &report.StoreClock{
			Held: c.Held, Untold: c.Untold, AheadMS: milliseconds(c.Ahead), Drift: c.Drift,
			Jumps: c.Jumps, Astray: c.Astray, FarthestMS: milliseconds(c.Farthest), CoarseMS: milliseconds(c.Coarse),
		}
	}
	for _, a := range result.ByDecider {
		f.ByDecider = append(f.ByDecider, report.Answers{
			DecidedBy: a.By.String(), Allowed: a.Allowed, Denied: a.Denied, Latency: report.QuantilesOf(a.Latency),
		})
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

// milliseconds is a time in milliseconds, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// audited is the limits of a run.
type audited struct {
	limits []namedLimit
	// keyOf names a key of a limit by its index; nil if nobody knows.
	keyOf func(limit int, index uint32) store.Key
}

// audit sums up what the audits of the limits found, those of shadows aside.
func (a *audited) audit(findings []audit.Finding) report.Audit {
	sum := report.Audit{Fairness: 1}
	for i, l := range a.limits {
		if !l.shadow {
			a.add(&sum, i, &findings[i])
		}
	}
	return sum
}

// auditOf is what the audit of the i-th limit found.
func (a *audited) auditOf(i int, f *audit.Finding) report.Audit {
	sum := report.Audit{Fairness: 1}
	a.add(&sum, i, f)
	return sum
}

// add adds what the audit of the i-th limit found.
func (a *audited) add(sum *report.Audit, i int, f *audit.Finding) {
	sum.Add(f, func(key uint32) string {
		if a.keyOf == nil {
			return ""
		}
		return a.keyOf(i, key).Subject
	})
}

// worstByClock is the worst windows that audits by the clock found.
func worstByClock(findings []audit.Finding) report.Audit {
	var worst report.Audit
	for _, f := range findings {
		worst.WorstRatio = max(worst.WorstRatio, f.WorstRatio)
		worst.WorstUnits = max(worst.WorstUnits, f.WorstUnits)
	}
	return worst
}

// describe fills in what the limits of a run are, and what their audits found.
func (a *audited) describe(run *report.Run, findings []audit.Finding) {
	var algorithms []string
	for i, l := range a.limits {
		algorithm := l.limit.Algorithm.String()
		if !slices.Contains(algorithms, algorithm) {
			algorithms = append(algorithms, algorithm)
		}
		run.Limits = append(run.Limits, report.Limit{
			Name: l.name, Algorithm: algorithm, Limit: l.limit.String(), Shadow: l.shadow,
			Denied: findings[i].Denied, Audit: a.auditOf(i, &findings[i]),
		})
	}
	run.Algorithm, run.Limit = strings.Join(algorithms, "+"), limitWords(a.limits)
	run.Audit = a.audit(findings)
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

// How much a run tells of its keys.
const (
	mostDeniedKeys = 10
	heatGroups     = 200
)

// describeKeys fills in what became of the subjects of a run. nameOf is what to call one.
func describeKeys(run *report.Run, tally *loadgen.Tally, nameOf func(subject uint32) string) {
	run.Heat, run.MostDenied = []report.HeatGroup{}, []report.KeyCount{}
	for _, group := range tally.Heat(heatGroups) {
		run.Heat = append(run.Heat, report.HeatGroup{Keys: group.Keys, Allowed: group.Allowed, Denied: group.Denied})
	}
	for _, count := range tally.MostDenied(mostDeniedKeys) {
		run.MostDenied = append(run.MostDenied, report.KeyCount{Key: nameOf(count.Subject), Allowed: count.Allowed, Denied: count.Denied})
	}
}
