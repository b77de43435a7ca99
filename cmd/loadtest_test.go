package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/limitctl/limitctl/cmd/internal/clitest"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// anyErrors is for load tests on a machine that may be too busy to send all requests in time.
const anyErrors = "--max-errors=100%"

// loadtest runs a load test in real time, wants that exit code, and returns its report.
func loadtest(t *testing.T, want int, args ...string) *report.Document {
	t.Helper()
	w := newWorld(t)
	w.Now, w.Sleep = time.Now, sys.Sleep
	stdout, stderr := w.run(t, want, append([]string{"loadtest", "-o", "json", anyErrors}, args...)...)
	document := new(report.Document)
	if err := json.Unmarshal([]byte(stdout), document); err != nil {
		t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	return document
}

// Every algorithm is right in Redis under every scenario, and each scenario shows what
// it is there to show. A machine that stalls at the wrong moment sends another load than
// it was asked to: what is judged of that is only what is right of any load, and what a
// scenario shows it may show in one of many attempts: while other tests are built and run
// on few cores, most runs have a stall.
func TestScenariosAgainstRedis(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	const attempts = 60
	server := redistest.Start(t)
	for _, scenario := range loadgen.Scenarios() {
		t.Run(scenario.Name, func(t *testing.T) {
			limit, length, keys := "20/500ms", "1200ms", "2"
			switch scenario.Name {
			case "boundary":
				keys = "1"
			case "slow-drip":
				limit, length = "400/2s", "2400ms" // so that no stall below delayed is a burst
			}
			if scenario.Name != "slow-drip" { // which the floods of the others would delay
				t.Parallel()
			}
			algorithms := "all"
			for range attempts {
				document := loadtest(t, exitYes, "--store", "redis://"+server.Addr, "--limit", limit, "--algorithm", algorithms,
					"--scenario", scenario.Name, "--duration", length, "--keys", keys, "--timeout", patience.String(), "--threshold",
					"errors==0")
				var again []string
				for i := range document.Runs {
					// in slices or not
					if name := document.Runs[i].Algorithm; !shows(t, &document.Runs[i], keys) && !slices.Contains(again, name) {
						again = append(again, name)
					}
				}
				if len(again) == 0 {
					return
				}
				algorithms = strings.Join(again, ",")
			}
			t.Errorf("in %d attempts it shows nothing of %s", attempts, algorithms)
		})
	}
}

// shows judges a run, and reports whether it showed what its scenario is about.
func shows(t *testing.T, r *report.Run, keys string) bool {
	t.Helper()
	a := r.Audit
	if a.OverAdmitted != 0 || a.UnderAdmitted != 0 || r.Workers != 256 || r.Allowed+r.Denied != r.Requests || fmt.Sprint(r.Keys) != keys {
		t.Errorf("%s: %d workers, %d allowed and %d denied of %d requests of %d keys: %+v", r.Algorithm, r.Workers, r.Allowed, r.Denied,
			r.Requests, r.Keys, a)
	}
	exact := r.Algorithm == "token-bucket" || r.Algorithm == "leaky-bucket" || r.Algorithm == "sliding-log"
	switch {
	case exact && a.WorstRatio > 1, a.WorstRatio > 2:
		t.Errorf("%s: %v × the limit", r.Algorithm, a.WorstRatio)
	case exact && r.Denied > 0 && a.WorstRatio != 1: // nobody is denied below the limit
		t.Errorf("%s: %d denied at %v × the limit", r.Algorithm, r.Denied, a.WorstRatio)
	}
	switch {
	case r.Scenario == "slow-drip":
		// Requests that were delayed may come together. Nine tenths of 400 in 2 s, and of what was due
		// within this long before and after, are still below the limit.
		const delayed = 100_000
		if r.Latency.Max >= delayed {
			return false
		}
		if r.Denied != 0 || a.WorstRatio > 1 {
			t.Errorf("%s: %d of what is below the limit was denied, worst window %v", r.Algorithm, r.Denied, a.WorstRatio)
		}
		return r.Allowed > 0
	case r.Scenario == "boundary" && r.Algorithm == "fixed-window":
		return a.WorstRatio >= 1.9
	case r.Scenario == "noisy-neighbour":
		return r.Denied > 0 && r.Neighbours != nil && r.Neighbours.Denied == 0 && r.Neighbours.Allowed > 0
	}
	return r.Denied > 0
}

// What the audit is there to find it finds. The limit is wide enough for all workers to
// be at it at once, however long it takes them to connect.
func TestTheNaiveImplementationIsFoundOut(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	t.Parallel()
	server := redistest.Start(t)
	document := loadtest(t, exitNo, "--store", "redis://"+server.Addr, "--limit", "500/1h", "--algorithm", "all", "--implementation",
		"naive",
		"--workers", "64", "--requests", "3000", "--duration", "10m", "--threshold", "over_admitted==0")
	for i := range document.Runs {
		r := &document.Runs[i]
		if r.Requests != 3000 || r.Errors != 0 || r.Audit.OverAdmitted <= 0 || r.Implementation != "naive" {
			t.Errorf("%s: %d requests, %d errors, %d over: %+v", r.Algorithm, r.Requests, r.Errors, r.Audit.OverAdmitted,
				document.Thresholds)
		}
	}
	if len(document.Runs) != 6 || len(document.Thresholds) != 6 { // every algorithm, and slices
		t.Errorf("%d runs, %d thresholds", len(document.Runs), len(document.Thresholds))
	}
	if n := server.Do("DBSIZE"); n != int64(0) {
		t.Errorf("%d keys are left", n)
	}
}

// A server that stalls for a second keeps what is due meanwhile waiting, and the report
// says so.
func TestAStallOfTheServerIsNotHidden(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	server := redistest.Start(t)
	onLoad(t, server, func() {
		server.Pause()
		time.Sleep(time.Second)
		server.Resume()
	})
	document := loadtest(t, exitYes, "--store", "redis://"+server.Addr, "--limit", "1000000/1s", "--rate", "300", "--workers", "4",
		"--requests", "900", "--duration", "10m", "--timeout", "1m")
	r := &document.Runs[0]
	// A second's worth of requests waited, less what came before the pause began, and
	// half of them for more than half a second. All but four of them had not been sent.
	if r.Requests != 900 || r.Errors != 0 || r.Dropped != 0 || r.Late < 200 || r.Latency.P90 < 200_000 || r.Latency.P99 < 500_000 ||
		r.Latency.Max < 900_000 {
		t.Errorf("%d requests, %d errors, %d dropped, %d late, %+v", r.Requests, r.Errors, r.Dropped, r.Late, r.Latency)
	}
	if r.Audit.OverAdmitted != 0 || r.Audit.UnderAdmitted != 0 {
		t.Errorf("%+v", r.Audit)
	}
}

// loadTested runs a load test with the memory of this process, and returns its one run.
func loadTested(t *testing.T, w *world, args ...string) report.Run {
	t.Helper()
	var d report.Document
	stdout, _ := w.run(t, exitYes,
		append([]string{"loadtest", "--store", "memory:", "--limit", "1000000/1s", "-o", "json", anyErrors}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || len(d.Runs) != 1 {
		t.Fatalf("%v in %s", err, stdout)
	}
	return d.Runs[0]
}

func TestRateOfBursts(t *testing.T) {
	run := loadTested(t, newWorld(t), "--arrivals", "bursts:20/100ms", "--duration", "300ms")
	if run.Rate != 200 || run.Requests+run.Dropped != 60 || run.DurationMS < 300 {
		t.Errorf("20 every 100 ms are %v/s; %d were sent and %d dropped in %d ms", run.Rate, run.Requests, run.Dropped, run.DurationMS)
	}
}

// What is asked for is only what of the stages is within the duration.
func TestRateOfStagesCutShort(t *testing.T) {
	t.Parallel()
	for _, arrivals := range []string{"uniform", "poisson"} {
		run := loadTested(t, newWorld(t), "--stages", "1s:1000,1s:0", "--duration", "200ms", "--arrivals", arrivals)
		if run.Rate != 100 || run.Requests+run.Dropped != 20 || run.DurationMS < 200 {
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
	stdout, _ := w.run(t, exitYes, "loadtest", "--config", path, "--store", "memory:", "--policy", "api", "tenant=t",
		"--keys", "2", "--distribution", "sequential",
		"--rate", "200", "--duration", "300ms", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatal(err)
	}
	const want = "1 key of the limit tenant had different limits at different times, because an override depends on an attribute " +
		"that is not part of the key; the audit judges each of them by its first limit"
	if run := d.Runs[0]; run.Audit.OverAdmitted != 15 || !slices.Contains(run.Warnings, want) {
		t.Errorf("%d over, and it warns of %q", run.Audit.OverAdmitted, run.Warnings)
	}
}

func TestAWarmupOfTheWholeLoadIsAMistake(t *testing.T) {
	w := newWorld(t)
	for _, load := range [][]string{{"--rate", "10"}, {"--scenario", "boundary"}, {"--stages", "1s:10"}} {
		_, stderr := w.run(t, exitUsage, append([]string{"loadtest", "--store", "memory:", "--limit", "10/1s", "--warmup", "1h"},
			load...)...)
		if !strings.Contains(stderr, "limitctl: --warmup 1h0m0s leaves nothing to count of a run of ") {
			t.Errorf("%q: %s", load, stderr)
		}
	}
}

// What a load test prints fits the terminal, and so does what it draws meanwhile.
func TestALoadTestFitsTheTerminal(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	t.Parallel()
	for _, args := range [][]string{
		{"--limit", "20/1h", "--keys", "3"},
		{"--limit", "20/1h", "--limit", "sliding-log:10/1d", "--threshold", "denied<=100%", "--threshold", "over_admitted==0"},
		{"--limit", "20/1h", "--algorithm", "all", "--threshold", "over_admitted==0"},
	} {
		for _, columns := range []int{40, 60, 80, 120} {
			w := newWorld(t)
			w.OutIsTerminal = true
			w.Size = func() (int, int) { return columns, 24 }
			stdout, _ := w.run(t, exitYes, append([]string{"loadtest", "--store", "memory:", "--rate", "1000", "--requests", "60",
				"--duration",
				"10m"}, args...)...)
			for line := range strings.Lines(stdout) {
				if line = clitest.Strip(strings.TrimSuffix(line, "\n")); runewidth.StringWidth(line) > columns {
					t.Errorf("%q: a line of %d columns on a terminal of %d: %s", args, runewidth.StringWidth(line), columns, line)
				}
			}
			if !strings.Contains(stdout, "\x1b[") || !strings.Contains(stdout, "over_admitted==0: 0") && len(args) > 4 {
				t.Errorf("%q on %d columns:\n%s", args, columns, stdout)
			}
		}
	}
}

// On a terminal a load test says how far it is while it runs, unless it is to be quiet.
func TestALoadTestSaysHowFarItIs(t *testing.T) {
	t.Parallel()
	for _, quiet := range []bool{false, true} {
		term := openTerminal(t)
		args := []string{"loadtest", "--limit", "10/1h", "--rate", "200", "--duration", "2s", "--store", "memory:"}
		if quiet {
			args = append(args, "-q")
		}
		term.start([]string{"TERM=xterm", "HOME=" + t.TempDir(), "XDG_STATE_HOME=", "LIMITCTL_STORE="}, args...)
		if quiet {
			term.cmd.Wait()
		} else {
			term.wait(0, ` of 2s, \S+ sent, \S+/s, \S+ denied, p99 `)
			term.wait(0, `MOST DENIED`) // of the report
		}
		if text := term.text(0); strings.Contains(text, " sent, ") == quiet {
			t.Errorf("quiet is %v, and it wrote %q", quiet, text)
		}
	}
}

// The user that docs/operations.md has for load tests is refused nothing, whatever the
// algorithm and the implementation, leaves no key behind, and cannot touch other keys.
func TestDocumentedRightsOfALoadTest(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	t.Parallel()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^redis-cli (ACL SETUSER limits-loadtest .*)$`).FindSubmatch(text)
	if line == nil {
		t.Fatal("docs/operations.md has no user for load tests")
	}
	var command []any
	for word := range strings.FieldsSeq(strings.ReplaceAll(string(line[1]), "'", "")) {
		command = append(command, word)
	}
	server := redistest.Start(t)
	server.Do(command...)
	store := "redis://limits-loadtest:PASSWORD@" + server.Addr
	for _, implementation := range []string{"script", "naive"} {
		w := newWorld(t)
		out, _ := w.run(t, exitYes, "loadtest", "--store", store, "--limit", "1000/1m", "--algorithm", "all", "--implementation",
			implementation,
			"--workers", "2", "--keys", "2", "--requests", "400", "--duration", "10s", "--no-fail", "-o", "json")
		if strings.Contains(out, "is not known") || !strings.Contains(out, `"bytes_per_unit"`) ||
			!strings.Contains(out, `"server_cpu_us"`) {
			t.Errorf("%s: something is not known:\n%s", implementation, out)
		}
	}
	if log := fmt.Sprint(server.Do("ACL", "LOG")); log != "[]" {
		t.Errorf("refused was %s", log)
	}
	if keys := server.Do("DBSIZE"); fmt.Sprint(keys) != "0" {
		t.Errorf("%v keys are left", keys)
	}
	newWorld(t).run(t, exitRefused, "consume", "user:42", "--limit", "10/1m", "--store", store)
}
