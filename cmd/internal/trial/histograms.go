package trial

import (
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// histogramsOf returns the distributions of a run's times.
func histogramsOf(result *loadgen.Result, closed bool) *report.Histograms {
	h := &report.Histograms{Latency: report.Encode(result.Latency), Service: report.Encode(result.Service)}
	if !closed {
		h.Lag = report.Encode(result.Lag)
	}
	return h
}
