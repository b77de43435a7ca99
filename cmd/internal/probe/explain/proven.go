package explain

import (
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// answers are outcomes in the words of the interval audit.
var answers = [...]interval.Answer{endpoint.Allowed: interval.Admitted, endpoint.Denied: interval.Denied, endpoint.Failed: interval.Unknown}

// Proven returns what the interval audit is sure of under a limit.
func Proven(limit store.Limit, keys []Key, resolution time.Duration) audit.Finding {
	return provenAround(limit, keys, resolution, 0, -1)
}

// provenAround is as [Proven] for windows that begin at most skew before or after a phase; a negative skew is any phase.
func provenAround(limit store.Limit, keys []Key, resolution, phase, skew time.Duration) audit.Finding {
	auditor := interval.New(interval.Options{Resolution: 2 * resolution, Skew: skew})
	for i := range keys {
		auditor.SetLimit(uint32(i), limit)
		for _, e := range keys[i].Events {
			if e.Cost > 0 {
				auditor.Observe(interval.Observation{
					Key: uint32(i), Sent: store.InstantOf(e.Sent.Add(-phase)), Answered: store.InstantOf(e.Answered.Add(-phase)),
					Cost: e.Cost, Answer: answers[e.Outcome],
				})
			}
		}
	}
	auditor.Settle(1 << 62)
	return auditor.Finding()
}

// ProvenByPhase is as [Proven], and tries ever shorter ranges of phases until one explains all events or none is left. The
// audit itself looks closer once in a period, so it sees little of long windows in a short time.
func ProvenByPhase(limit store.Limit, keys []Key, resolution time.Duration) audit.Finding {
	finding := Proven(limit, keys, resolution)
	m := Model{Limit: limit}
	if finding.LeastOver+finding.LeastUnder > 0 || !m.IsAligned() {
		return finding
	}
	return provenByPhase(func(phase, skew time.Duration) audit.Finding {
		return provenAround(limit, keys, resolution, phase, skew)
	}, resolution, 0, limit.Period/2)
}

// provenByPhase returns the finding under the phases of a range that explain most.
func provenByPhase(around func(phase, skew time.Duration) audit.Finding, resolution, phase, skew time.Duration) (best audit.Finding) {
	best = around(phase, skew)
	if best.LeastOver+best.LeastUnder > 0 || skew <= resolution {
		return best
	}
	const parts = 8
	for n := range time.Duration(parts) {
		one := provenByPhase(around, resolution, phase-skew+(2*n+1)*skew/parts, skew/parts)
		if n == 0 || one.LeastOver+one.LeastUnder < best.LeastOver+best.LeastUnder {
			best = one
		}
		if best.LeastOver+best.LeastUnder == 0 {
			break
		}
	}
	return best
}
