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

	"github.com/limitctl/limitctl/internal/clitest"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/internal/tier"
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

// Every algorithm is right in Redis under load, and what is not the audit finds. The limit is wide enough for all workers
// to be at it at once, however long it takes them to connect.
func TestEveryAlgorithmAgainstRedis(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	t.Parallel()
	server := redistest.Start(t)
	for implementation, exit := range map[string]int{"script": exitYes, "naive": exitNo} {
		document := loadtest(t, exit, "--store", "redis://"+server.Addr, "--limit", "500/1h", "--algorithm", "all",
			"--implementation", implementation, "--workers", "64", "--requests", "3000", "--duration", "10m",
			"--threshold", "over_admitted==0", "--timeout", patience.String())
		for i := range document.Runs {
			r := &document.Runs[i]
			over, under := r.Audit.OverAdmitted, r.Audit.UnderAdmitted
			if r.Requests != 3000 || r.Errors != 0 || r.Allowed+r.Denied != 3000 || r.Implementation != implementation ||
				(over > 0) != (exit == exitNo) || exit == exitYes && under != 0 {
				t.Errorf("%s: %d requests, %d errors, %d over, %d under", r.Algorithm, r.Requests, r.Errors, over, under)
			}
			exact := r.Algorithm != "fixed-window" && r.Algorithm != "sliding-counter"
			if exit == exitYes && (r.Denied == 0 || exact && r.Audit.WorstRatio != 1) { // nobody is denied below the limit
				t.Errorf("%s: %d denied at %v × the limit", r.Algorithm, r.Denied, r.Audit.WorstRatio)
			}
		}
		if len(document.Runs) != 6 || len(document.Thresholds) != 6 { // every algorithm, and slices
			t.Errorf("%d runs, %d thresholds", len(document.Runs), len(document.Thresholds))
		}
	}
	if n := server.Do("DBSIZE"); n != int64(0) {
		t.Errorf("%d keys are left", n)
	}
}

// A scenario in real time. A machine that stalls at the wrong moment sends another load than it was asked to, so only what
// is right of any load is judged.
func TestAScenarioAgainstRedis(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	t.Parallel()
	r := loadtest(t, exitYes, "--store", "redis://"+redistest.Start(t).Addr, "--limit", "20/200ms", "--scenario", "noisy-neighbour",
		"--duration", "500ms", "--keys", "2", "--timeout", patience.String(), "--threshold", "errors==0").Runs[0]
	if a := r.Audit; a.OverAdmitted != 0 || a.UnderAdmitted != 0 || a.WorstRatio > 1 || r.Workers != 256 ||
		r.Allowed+r.Denied != r.Requests || r.Keys != 2 || r.Denied == 0 || r.Neighbours == nil || r.Neighbours.Allowed == 0 {
		t.Errorf("%d workers, %d allowed and %d denied of %d requests of %d keys, neighbours %+v: %+v", r.Workers, r.Allowed, r.Denied,
			r.Requests, r.Keys, r.Neighbours, a)
	}
}

// What is asked for is only what of the stages is within the duration.
func TestRateOfStagesCutShort(t *testing.T) {
	t.Parallel()
	for _, arrivals := range []string{"uniform", "poisson"} {
		run := loadtest(t, exitYes, "--store", "memory:", "--limit", "1000000/1s", "--stages", "1s:1000,1s:0", "--duration", "200ms",
			"--arrivals", arrivals).Runs[0]
		if run.Rate != 100 || run.Requests+run.Dropped != 20 || run.DurationMS < 200 {
			t.Errorf("%s: 20 within 200 ms are %v/s; %d were sent in %d ms", arrivals, run.Rate, run.Requests, run.DurationMS)
		}
	}
}

// A key that is under different limits in turn is audited against one of them, which the
// report must not keep to itself.
func TestALoadTestTellsOfMixedKeys(t *testing.T) {
	t.Parallel()
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
	d := loadtest(t, exitYes, "--config", path, "--store", "memory:", "--policy", "api", "tenant=t",
		"--keys", "2", "--rate", "200", "--duration", "300ms")
	const want = "1 key of the limit tenant had different limits at different times, because an override depends on an attribute " +
		"that is not part of the key; the audit judges each of them by its first limit"
	if run := d.Runs[0]; run.Audit.OverAdmitted != 15 || !slices.Contains(run.Warnings, want) {
		t.Errorf("%d over, and it warns of %q", run.Audit.OverAdmitted, run.Warnings)
	}
}

// What a load test prints fits the terminal, and so does what it draws meanwhile.
func TestALoadTestFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{40, 80} {
		w := newWorld(t)
		w.OutIsTerminal = true
		w.Size = func() (int, int) { return columns, 24 }
		stdout, _ := w.run(t, exitYes, "loadtest", "--store", "memory:", "--rate", "1000", "--requests", "60", "--duration", "10m",
			"--limit", "20/1h", "--limit", "sliding-log:10/1d", "--threshold", "denied<=100%", "--threshold", "over_admitted==0")
		for line := range strings.Lines(stdout) {
			if line = clitest.Strip(strings.TrimSuffix(line, "\n")); runewidth.StringWidth(line) > columns {
				t.Errorf("a line of %d columns on a terminal of %d: %s", runewidth.StringWidth(line), columns, line)
			}
		}
		if !strings.Contains(stdout, "\x1b[") || !strings.Contains(stdout, "over_admitted==0: 0") {
			t.Errorf("on %d columns:\n%s", columns, stdout)
		}
	}
}

// On a terminal a load test says how far it is while it runs, unless it is to be quiet.
func TestALoadTestSaysHowFarItIs(t *testing.T) {
	for _, quiet := range []string{"--quiet=false", "--quiet"} {
		t.Run(quiet, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t)
			term.start([]string{"TERM=xterm", "HOME=" + t.TempDir(), "XDG_STATE_HOME=", "LIMITCTL_STORE=" + unset},
				"loadtest", "--limit", "10/1h", "--rate", "200", "--duration", "1s", "--store", "memory:", quiet)
			if quiet == "--quiet=false" {
				term.wait(0, `/1s, \S+ sent, \S+/s, (1s left, )?\S+ denied, p99 `, `nobody got more`) // of the report
			} else if term.cmd.Wait(); strings.Contains(term.text(0), " sent, ") {
				t.Errorf("it wrote %q", term.text(0))
			}
		})
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
