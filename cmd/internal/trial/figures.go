package trial

import (
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
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
		Audit:        auditOf(l.limits, result.Findings),
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

// auditOf sums up what the audits of limits found, those of shadows aside.
func auditOf(limits []namedLimit, findings []audit.Finding) report.Audit {
	var binding []audit.Finding
	for i, l := range limits {
		if !l.shadow {
			binding = append(binding, findings[i])
		}
	}
	return reportAudit(binding...)
}

// reportAudit is the worst of the ratios and the sum of the units that audits found.
func reportAudit(findings ...audit.Finding) report.Audit {
	sum := report.Audit{Fairness: 1}
	for _, f := range findings {
		sum.WorstWindowRatio = max(sum.WorstWindowRatio, f.WorstRatio)
		sum.WorstWindowUnits = max(sum.WorstWindowUnits, f.WorstUnits)
		sum.OverAdmitted += f.OverAdmitted
		sum.UnderAdmitted += f.UnderAdmitted
		sum.Excused += f.Excused
		sum.LongestDenialRun = max(sum.LongestDenialRun, f.LongestDenialRun)
		if sum.KeySums == nil || f.Fairness < sum.Fairness {
			sum.Fairness = f.Fairness
			sum.KeySums = &report.KeySums{Keys: f.Keys, Sum: f.Charged, SumOfSquares: f.ChargedSquares}
		}
	}
	return sum
}

// describeLimits fills in what the limits of a run are, and what their audits found.
func describeLimits(run *report.Run, limits []namedLimit, findings []audit.Finding) {
	var algorithms []string
	for i, l := range limits {
		algorithm := l.limit.Algorithm.String()
		if !slices.Contains(algorithms, algorithm) {
			algorithms = append(algorithms, algorithm)
		}
		run.Limits = append(run.Limits, report.Limit{
			Name: l.name, Algorithm: algorithm, Limit: l.limit.String(), Shadow: l.shadow,
			Denied: findings[i].Denied, Audit: reportAudit(findings[i]),
		})
	}
	run.Algorithm, run.Limit = strings.Join(algorithms, "+"), limitWords(limits)
	run.Audit = auditOf(limits, findings)
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
