package cmd

import (
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// describedLimit is a limit, and what a report calls it.
type describedLimit struct {
	name   string
	limit  limiter.Limit // normalized
	shadow bool
}

// describeLimits fills in what the limits of a run are and what their audits found.
func describeLimits(run *report.Run, limits []describedLimit, findings []audit.Finding) {
	var algorithms, texts []string
	var binding []audit.Finding
	for i, l := range limits {
		algorithm := l.limit.Algorithm.String()
		if !slices.Contains(algorithms, algorithm) {
			algorithms = append(algorithms, algorithm)
		}
		texts = append(texts, l.limit.String())
		run.Limits = append(run.Limits, report.Limit{
			Name: l.name, Algorithm: algorithm, Limit: l.limit.String(), Shadow: l.shadow,
			Denied: findings[i].Denied, Audit: reportAudit(findings[i]),
		})
		if !l.shadow {
			binding = append(binding, findings[i])
		}
	}
	run.Algorithm, run.Limit = strings.Join(algorithms, "+"), strings.Join(texts, " and ")
	run.Audit = reportAudit(binding...)
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
