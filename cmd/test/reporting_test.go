package test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/clitest"
	"github.com/limitctl/limitctl/internal/report"
)

// ruled is something with a verdict.
type ruled struct {
	verdict report.Verdict
	reasons []string
}

func (r ruled) Markdown() []byte { return nil }

func (r ruled) JUnit() []byte { return nil }

func (r ruled) Ruling() (verdict report.Verdict, what string, reasons []string) {
	return r.verdict, "load test of a:1/1s,burst=5\n::error::x", r.reasons
}

// GitHub shows why something did not pass. Nothing of a text of others becomes a command of its own.
func TestAnnotations(t *testing.T) {
	const title = ` title=limitctl%3A FAIL%3A "load test of a%3A1/1s%2Cburst=5\n%3A%3Aerror%3A%3Ax"::`
	for name, test := range map[string]struct {
		actions string
		quiet   bool
		ruled   ruled
		want    string
	}{
		"elsewhere": {"", false, ruled{report.Fail, []string{"x"}}, ""},
		"not true":  {"false", false, ruled{report.Fail, []string{"x"}}, ""},
		"quiet":     {"true", true, ruled{report.Fail, []string{"x"}}, ""},
		"pass":      {"true", false, ruled{report.Pass, nil}, ""},
		"fail": {"true", false, ruled{report.Fail, []string{"denied<1% was missed: 90%", "two\n::warning::forged\r"}},
			"::error" + title + `denied<1%25 was missed: 90%25%0A"two\n::warning::forged\r"` + "\n"},
		"inconclusive": {"true", false, ruled{report.Inconclusive, []string{"never above 7%"}},
			"::warning" + strings.Replace(title, "FAIL", "INCONCLUSIVE", 1) + "never above 7%25\n"},
	} {
		var out bytes.Buffer
		env := clitest.Env(t)
		env.Err = &out
		env.Getenv = func(variable string) string {
			return map[string]string{"GITHUB_ACTIONS": test.actions}[variable]
		}
		g := &cli.Globals{Env: env}
		g.Quiet = test.quiet
		if annotate(g, test.ruled); out.String() != test.want {
			t.Errorf("%s: %q, want %q", name, &out, test.want)
		}
	}
}

// A threshold that could not be judged ends a job, unless that was allowed; one that was missed always does.
func TestTheExitCodeOfThresholds(t *testing.T) {
	unjudged, missed := report.Threshold{NotJudged: "why"}, report.Threshold{}
	for _, test := range []struct {
		threshold report.Threshold
		noFail    bool
		want      error
	}{
		{report.Threshold{OK: true}, false, nil},
		{unjudged, false, cli.ErrDenied},
		{unjudged, true, nil},
		{missed, true, cli.ErrDenied},
	} {
		o := verdictFlags{noFail: test.noFail}
		if got := o.exit(&report.Document{Thresholds: []report.Threshold{test.threshold}}); got != test.want {
			t.Errorf("%+v, --no-fail %t: %v, want %v", test.threshold, test.noFail, got, test.want)
		}
	}
}

// A saved run tells the command line that made it, and no secret that was on it.
func TestTheCommandLineOfAReport(t *testing.T) {
	for line, want := range map[string]string{
		"loadtest --limit 10/1s":                                       "limitctl loadtest --limit 10/1s",
		"loadtest --store redis://user:hunter2@localhost/0":            "limitctl loadtest --store redis://user:xxxxx@localhost/0",
		"loadtest --store=redis://:hunter2@localhost":                  "limitctl loadtest --store=redis://:xxxxx@localhost",
		"loadtest http://a:hunter2@localhost/x":                        "limitctl loadtest http://...@localhost/x",
		"loadtest http://localhost/x?key=hunter2&q":                    "limitctl loadtest 'http://localhost/x?key=...&q'",
		"loadtest http://localhost/{subject}?user={subject}":           "limitctl loadtest 'http://localhost/{subject}?user={subject}'",
		"loadtest --header Authorization:hunter2 --body=hunter2 -d 1s": "limitctl loadtest --header 'Authorization: ...' --body=... -d 1s",
		"loadtest --body hunter2 --header=X-Key:hunter2":               "limitctl loadtest --body ... '--header=X-Key: ...'",
		"loadtest -H Authorization:hunter2 -HX-Key:hunter2":            "limitctl loadtest -H 'Authorization: ...' '-HX-Key: ...'",
	} {
		g := &cli.Globals{Env: clitest.Env(t), Args: strings.Fields(line)}
		if got := commandLine(g); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}
