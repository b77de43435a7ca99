//go:build unix

package cmd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

// The examples in the help texts work as they stand, pasted into a shell.
func TestHelpExamplesWork(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	t.Parallel()
	n := 0
	layouts := redistest.Start(t)
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			line = strings.TrimSpace(line)
			n++
			t.Run(line, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				writeExampleConfig(t, dir)
				env := []string{"CI_COMMIT_TITLE=more for acme", "NO_COLOR=1"}
				// the keys are in a Redis
				if strings.Contains(line, " --layout ") || strings.Contains(line, " --from ") {
					env = append(env, "LIMITCTL_STORE=redis://"+layouts.Addr)
				}
				run := func(line string) ([]byte, error) { return shellIn(dir, line, env...).CombinedOutput() }
				serves := strings.HasPrefix(line, "limitctl serve") && !strings.Contains(line, "--check-config")
				if serves || strings.HasPrefix(line, "curl") {
					serveExample(t, dir, line)
					return
				}
				if strings.HasPrefix(line, "limitctl probe") {
					line = probeExample(t, line)
				}
				if strings.HasPrefix(line, "limitctl dashboard") && !strings.Contains(line, "--once") {
					term := openTerminal(t)
					term.run(shellIn(dir, line, env...))
					term.wait(0, `\? help`)
					term.press("q")
					term.checkLeft(exitYes)
					return
				}
				if ours := regexp.MustCompile(`limitctl completion \w+`).FindString(line); ours != "" {
					line = ours // the rest is for another shell than that of the test
				}
				// At any hour the end is later than that of the override before.
				line = strings.Replace(line, "--until 04:00", "--until "+time.Now().Add(12*time.Hour).Format("15:04"),
					1)
				if before := beforeExample(line); before != "" {
					if output, err := run(before); err != nil {
						t.Fatalf("%s: %v\n%s", before, err, output)
					}
				}
				output, err := run(withExampleIDs(line))
				asks := !strings.Contains(line, "--yes") && !strings.Contains(line, "--confirm") &&
					!strings.Contains(line, "--dry-run")
				if asks && (strings.Contains(string(output), "there is no terminal to ask on; give --yes") ||
					strings.Contains(string(output), "there is no terminal to type its name on; give --confirm prod")) {
					return // there is no terminal here
				}
				if strings.HasPrefix(line, "limitctl probe") && strings.Contains(string(output), "INCONCLUSIVE") {
					return // a busy machine blurs what is seen, and this is what probe says of it
				}
				if strings.HasPrefix(line, "limitctl loadtest") &&
					strings.Contains(string(output), "planned requests got no decision") {
					return // a busy machine drops requests, and this is what loadtest says of it
				}
				if err != nil {
					t.Errorf("%v\n%s", err, output)
				}
			})
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRootCmd(&cli.Globals{Env: newWorld(t).Env}))
	if n < 15 {
		t.Errorf("only %d examples were found", n)
	}
}

// shellIn is a shell that runs a line in a directory, and keeps what it keeps there.
func shellIn(dir, line string, env ...string) *exec.Cmd {
	shell := exec.Command("sh", "-c", line)
	shell.Dir = dir
	shell.Env = append(append(os.Environ(), "XDG_STATE_HOME="+dir, "XDG_CONFIG_HOME="+dir), env...)
	return shell
}

// exampleLog is an access log of a few clients, one of which asks a lot.
func exampleLog() string {
	var b strings.Builder
	begin := time.Date(2015, time.May, 17, 10, 5, 0, 0, time.UTC)
	for i := range 200 {
		fmt.Fprintf(&b, "203.0.113.%d - - [%s] \"GET /%d HTTP/1.1\" 200 512\n", i%4*(i%3),
			begin.Add(time.Duration(i)*time.Second).Format("02/Jan/2006:15:04:05 -0700"), i)
	}
	return b.String()
}

// exampleAnswers are answers that a load generator recorded: so many are allowed at once, and one is denied.
func exampleAnswers(head, line string, allowed int) string {
	for i := range allowed + 1 {
		status := 200
		if i == allowed {
			status = 429
		}
		head += fmt.Sprintf(line, 1767225600+float64(i)/1000, 1767225600.001+float64(i)/1000, status)
	}
	return head
}

// writeExampleConfig provides what the examples are about: the policies of the
// README and one with costs, a context, and saved reports.
func writeExampleConfig(t *testing.T, dir string) {
	policies, err := os.ReadFile("../internal/configfile/testdata/good/readme.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		"limitctl.yaml": string(policies) +
			"  llm: {limits: [{name: tokens, by: [team], limit: 100000/1m, cost: tokens}]}\n",
		"limitctl/limitctl.yaml": "contexts: {dev: {store: \"file:dev.db\"}, prod: {store: \"file:prod.db\", " +
			"protected: true}}\n",
		"access.log":   exampleLog(),
		"results.json": exampleAnswers("", `{"start":%f,"end":%f,"status":%d}`+"\n", 100),
		"a.json":       exampleAnswers("", `{"start":%f,"end":%f,"user":"u","status":%d}`+"\n", 100),
		"b.json":       `{"start":1767225601,"end":1767225601.5,"user":"u","status":429}`,
		"c.json":       `{"start":1767225601,"end":1767225601.5,"user":"v","status":200}`,
		"answers.csv":  exampleAnswers("start,end,status\n", "%f,%f,%d\n", 20),
	} {
		if err := files.Write(filepath.Join(dir, path), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(dir, os.DirFS("../internal/report/testdata")); err != nil {
		t.Fatal(err)
	}
}

// beforeExample is what the example on a line takes for granted: that something was used, or
// deleted, or blocked.
func beforeExample(line string) string {
	const (
		named  = "20261122T031405.120Z-4711.jsonl"
		used   = "limitctl consume user:42 --limit 3/1h"
		folder = "limitctl/backups"
	)
	rest, _ := strings.CutPrefix(line, "limitctl ")
	switch {
	case strings.Contains(line, "backup.jsonl"):
		return used + " && limitctl reset user:42 --yes --backup backup.jsonl"
	case strings.Contains(line, named):
		return used + " && limitctl reset user:42 --yes && mv " + folder + "/*.jsonl " + folder + "/" + named
	case strings.HasPrefix(rest, "undo") && strings.Contains(line, "--context prod"):
		return used + " --context prod && limitctl reset user:42 --context prod --confirm prod"
	case strings.HasPrefix(rest, "undo"):
		return used + " && limitctl reset user:42 --yes"
	case strings.HasPrefix(rest, "refund"):
		return "limitctl consume" + strings.TrimPrefix(rest, "refund")
	case strings.HasPrefix(rest, "unblock"):
		return "limitctl block " + strings.TrimSuffix(strings.TrimPrefix(rest, "unblock "), " --yes") +
			" --for 1h --reason x --yes"
	case strings.HasPrefix(rest, "override revoke"):
		return "limitctl override set a --times 2 --for 1h --reason x --yes && limitctl override set b --times 2 " +
			"--for 1h --reason x --yes"
	case strings.Contains(line, "base1.json"):
		return "cp base.json base1.json && cp base.json base2.json && cp base.json base3.json"
	case strings.HasPrefix(rest, "config import"):
		return "mkdir config && printf 'domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, " +
			"requests_per_unit: 5}}]\n'" +
			" > config/config.yaml"
	case strings.HasPrefix(rest, "config fetch"), strings.HasPrefix(rest, "config history"),
		strings.HasPrefix(rest, "config rollback"),
		strings.HasPrefix(rest, "config status"):
		publish := "limitctl config publish limitctl.yaml -m first --yes"
		if strings.Contains(line, "--context prod") {
			publish += " --context prod --confirm prod"
		}
		return publish + " && sed -i.before s/1000/900/ limitctl.yaml && " + publish
	case strings.Contains(line, "--trace requests.jsonl"):
		return `cp limitctl.yaml new.yaml && echo '{"time":"2026-07-01T12:00:00Z","ip":"192.0.2.1","email":"a@b",` +
			`"tenant":"acme","plan":"free","user":"7","route":"/","team":"search","environment":"staging","tokens":5}' > requests.jsonl`
	case strings.HasPrefix(rest, "config diff"):
		return "cp limitctl.yaml new.yaml"
	}
	return ""
}

// withExampleIDs puts the IDs of overrides and the versions that there are in the place of an example's.
func withExampleIDs(line string) string {
	line = strings.NewReplacer("rollback 12", "rollback 1", "--version 12", "--version 1").Replace(line)
	for n, id := range []string{"3f9a1c", "77b0de"} {
		line = strings.ReplaceAll(line, id, fmt.Sprintf(
			"$(limitctl override list -o jsonl 2>/dev/null | sed -n '%ds/.*\"id\":\"\\([^\"]*\\)\".*/\\1/p')", n+1))
	}
	return line
}
