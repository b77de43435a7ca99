package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// What is asked for is only what of the stages is within the duration.
func TestRateOfStagesCutShort(t *testing.T) {
	for _, arrivals := range []string{"uniform", "poisson"} {
		run := loadTested(t, newWorld(t), "--stages", "1s:1000,1s:0", "--duration", "200ms", "--arrivals", arrivals)
		if run.Rate != 100 || run.Requests != 20 || run.DurationMS < 200 {
			t.Errorf("%s: 20 within 200 ms are %v/s; %d were sent in %d ms", arrivals, run.Rate, run.Requests, run.DurationMS)
		}
	}
}

// A key that is under different limits in turn is audited against one of them, which the
// report must not keep to itself.
func TestALoadTestTellsOfMixedKeys(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "policies.yaml")
	const mixed = `policies:
  api:
    limits:
      - {name: tenant, by: [tenant], limit: 5/1h, overrides: [{when: {user: user-1}, limit: 20/1h}]}
      - {name: user, by: [user], limit: 1000/1h}
`
	if err := os.WriteFile(path, []byte(mixed), 0o600); err != nil {
		t.Fatal(err)
	}
	var d report.Document
	stdout, _ := w.run(t, exitYes, "loadtest", "--config", path, "--store", "memory:", "--policy", "api", "--keys", "2", "--values", "tenant=1", "--distribution", "sequential",
		"--rate", "200", "--duration", "300ms", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatal(err)
	}
	const want = "1 keys of the limit tenant were under different limits in turn, by overrides for attributes that the limit is not by; their audit is against the first"
	if run := d.Runs[0]; run.Audit.OverAdmitted != 15 || !slices.Contains(run.Warnings, want) {
		t.Errorf("%d over, and it warns of %q", run.Audit.OverAdmitted, run.Warnings)
	}
}

// A report that cannot be kept is no reason to find that out after the load.
func TestAReportHasAPlaceBeforeTheLoad(t *testing.T) {
	w := newWorld(t)
	for _, flag := range []string{"--save", "--html"} {
		directory := t.TempDir()
		_, stderr := w.run(t, exitUsage, "loadtest", "--store", "memory:", "--limit", "10/1s", "--duration", "200ms", flag, directory)
		if want := "limitctl: the report cannot be written to " + directory + ": it is a directory\n"; stderr != want {
			t.Errorf("%s: %q", flag, stderr)
		}
	}
}

// A log that would take centuries is sent for as long as is asked for, in its own order.
func TestAReplayOfCenturies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.csv")
	if err := os.WriteFile(path, []byte("time,key\n0,a\n0,b\n1,c\n4000000000,d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, speed := range []string{"10", "0.1", "1e-9"} {
		run := loadTested(t, newWorld(t), "--replay", path, "--speed", speed, "--duration", "150ms")
		want := int64(2)
		if speed == "10" {
			want = 3
		}
		if run.Requests != want || run.DurationMS != 150 || run.Rate > 0.01 {
			t.Errorf("%s times as fast: %d requests in %d ms, at %v/s", speed, run.Requests, run.DurationMS, run.Rate)
		}
	}
}

func TestAWarmupOfTheWholeLoadIsAMistake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.csv")
	if err := os.WriteFile(path, []byte("time,key\n0,a\n1,b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	for _, load := range [][]string{{"--rate", "10"}, {"--scenario", "boundary"}, {"--replay", path}, {"--stages", "1s:10"}} {
		_, stderr := w.run(t, exitUsage, append([]string{"loadtest", "--store", "memory:", "--limit", "10/1s", "--warmup", "1h"}, load...)...)
		if !strings.Contains(stderr, "limitctl: --warmup 1h0m0s leaves nothing of ") {
			t.Errorf("%q: %s", load, stderr)
		}
	}
}
