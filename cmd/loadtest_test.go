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
	const want = "1 key of the limit tenant had different limits at different times, because an override depends on " +
		"an attribute " +
		"that is not part of the key; the audit judges each of them by its first limit"
	if run := d.Runs[0]; run.Audit.OverAdmitted != 15 || !slices.Contains(run.Warnings, want) {
		t.Errorf("%d over, and it warns of %q", run.Audit.OverAdmitted, run.Warnings)
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
				term.wait(0, `/1s, \S+ sent, \S+/s, (1s left, )?\S+ denied, p99 `, `-v: everything`) // of the report
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
		out, _ := w.run(t, exitYes, "loadtest", "--store", store, "--limit", "1000/1m", "--algorithm", "all",
			"--implementation",
			implementation,
			"--workers", "2", "--keys", "2", "--requests", "400", "--duration", "10s", "--no-fail", "-o", "json")
		if !strings.Contains(out, `"server": "`) {
			t.Errorf("%s: the server is not known:\n%s", implementation, out)
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
