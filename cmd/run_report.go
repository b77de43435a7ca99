package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// describedLimit is a limit, and what a report calls it.
type describedLimit struct {
	name   string
	limit  limiter.Limit // normalized
	shadow bool
}

// describePolicy says which limits a policy has, without overrides.
func describePolicy(p *policy.Policy) []describedLimit {
	var described []describedLimit
	for i := range p.Limits {
		l := &p.Limits[i]
		limit, _ := l.Limit.Normalize() // the configuration was checked
		described = append(described, describedLimit{l.Name, limit, l.Shadow})
	}
	return described
}

// describeLimits fills in what the limits of a run are and what their audits found.
func describeLimits(run *report.Run, limits []describedLimit, findings []audit.Finding) {
	var algorithms, texts []string
	for i, l := range limits {
		algorithm := l.limit.Algorithm.String()
		if !slices.Contains(algorithms, algorithm) {
			algorithms = append(algorithms, algorithm)
		}
		text := l.limit.String()
		if l.shadow {
			text += " (shadow)"
		}
		texts = append(texts, text)
		run.Limits = append(run.Limits, report.Limit{
			Name: l.name, Algorithm: algorithm, Limit: l.limit.String(), Shadow: l.shadow,
			Denied: findings[i].Denied, Audit: reportAudit(findings[i]),
		})
	}
	run.Algorithm, run.Limit = strings.Join(algorithms, "+"), strings.Join(texts, " and ")
	run.Audit = bindingAudit(limits, findings)
}

// bindingAudit sums up what the audits found of all limits but those in shadow.
func bindingAudit(limits []describedLimit, findings []audit.Finding) report.Audit {
	var binding []audit.Finding
	for i, l := range limits {
		if !l.shadow {
			binding = append(binding, findings[i])
		}
	}
	return reportAudit(binding...)
}

// describeKeys fills in what became of the subjects of a run; name is what to call one.
func describeKeys(run *report.Run, tally *loadgen.Tally, name func(subject uint32) string) {
	run.Heat, run.MostDenied = []report.HeatGroup{}, []report.KeyCount{}
	for _, group := range tally.Heat(heatGroups) {
		run.Heat = append(run.Heat, report.HeatGroup{Keys: group.Keys, Allowed: group.Allowed, Denied: group.Denied})
	}
	for _, count := range tally.MostDenied(mostDeniedKeys) {
		run.MostDenied = append(run.MostDenied, report.KeyCount{Key: name(count.Subject), Allowed: count.Allowed, Denied: count.Denied})
	}
}

// neighboursOf is what became of the requests of all but the noisy one.
func neighboursOf(tally *loadgen.Tally) *report.KeyCount {
	noisy := tally.Of(loadgen.NoisySubject)
	return &report.KeyCount{Key: "all others", Allowed: tally.Allowed() - noisy.Allowed, Denied: tally.Denied() - noisy.Denied}
}

// reportAudit is the worst of the ratios and the sum of the units that audits found.
func reportAudit(findings ...audit.Finding) report.Audit {
	sum := report.Audit{Fairness: 1}
	for _, f := range findings {
		sum.WorstWindowRatio = max(sum.WorstWindowRatio, f.WorstRatio)
		sum.WorstWindowUnits = max(sum.WorstWindowUnits, f.WorstUnits)
		sum.OverAdmitted += f.OverAdmitted
		sum.UnderAdmitted += f.UnderAdmitted
		sum.LongestDenialRun = max(sum.LongestDenialRun, f.LongestDenialRun)
		if sum.KeySums == nil || f.Fairness < sum.Fairness {
			sum.Fairness = f.Fairness
			sum.KeySums = &report.KeySums{Keys: f.Keys, Sum: f.Charged, SumOfSquares: f.ChargedSquares}
		}
	}
	return sum
}

// How much a run tells of its keys.
const (
	mostDeniedKeys = 10
	heatGroups     = 200
)

// mixedWarning says that overrides make a limit's audit doubtful.
func mixedWarning(keys int, limit string) string {
	return fmt.Sprintf("%s of the limit %s came under different limits, because of overrides for attributes that the limit is not counted by; their audit is against the first", output.Plural(keys, "key"), limit)
}
