package test

import (
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/clitest"
)

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
