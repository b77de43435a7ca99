package experiment

import (
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// describe fills in what the limits of a run are.
func describe(run *report.Run, limits []namedLimit) {
	for i, l := range limits {
		is := &run.Limits[i]
		is.Name, is.Algorithm, is.Limit, is.Shadow = l.name, l.limit.Algorithm.String(), l.limit.String(), l.shadow
	}
	run.Algorithm, run.Limit = algorithmWords(limits), limitWords(limits)
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

// mostDenied is the subjects that were denied most often; nameOf is what to call one.
func mostDenied(tally *loadgen.Tally, nameOf func(subject uint32) string) []report.KeyCount {
	most := []report.KeyCount{}
	for _, count := range tally.MostDenied(report.MostDeniedKeys) {
		most = append(most, report.KeyCount{Key: nameOf(count.Subject), Allowed: count.Allowed, Denied: count.Denied})
	}
	return most
}

// toEdge returns how long after an instant the window that holds it ends.
func toEdge(limit *store.Limit, at time.Time) time.Duration {
	if end, has := limit.InWindow(store.InstantOf(at)).WindowEnds(); has {
		return end.Sub(at)
	}
	return limit.Period - time.Duration(at.UnixNano()%int64(limit.Period))
}
