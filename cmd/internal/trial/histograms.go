package trial

import (
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// histogramsOf returns the distributions of a run's times.
func histogramsOf(result *loadgen.Result, closed bool) *report.Histograms {
	h := &report.Histograms{Latency: result.Latency, Service: result.Service, Errors: result.ErrorLatency}
	for _, a := range result.ByDecider {
		h.AddDecider(a.By.String(), a.Latency)
	}
	if !closed {
		h.Lag = result.Lag
	}
	return h
}
