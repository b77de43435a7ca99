package cmd

import (
	"strings"
	"testing"
)

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
