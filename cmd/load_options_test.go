package cmd

import (
	"encoding/json"
	"testing"

	"github.com/limitctl/limitctl/cmd/internal/report"
)

// loadTested runs a load test with the memory of this process, and returns its one run.
func loadTested(t *testing.T, w *world, args ...string) report.Run {
	t.Helper()
	var d report.Document
	stdout, _ := w.run(t, exitYes, append([]string{"loadtest", "--store", "memory:", "--limit", "1000000/1s", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || len(d.Runs) != 1 {
		t.Fatalf("%v in %s", err, stdout)
	}
	return d.Runs[0]
}

func TestRateOfBursts(t *testing.T) {
	run := loadTested(t, newWorld(t), "--arrivals", "bursts:20/100ms", "--duration", "300ms")
	if run.Rate != 200 || run.Requests != 60 || run.DurationMS < 300 {
		t.Errorf("20 every 100 ms are %v/s; %d were sent in %d ms", run.Rate, run.Requests, run.DurationMS)
	}
}
