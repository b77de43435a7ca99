package cmd

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/cli"
)

// topics are the pages of "limitctl help PAGE".
func topics() map[string]string {
	return map[string]string{"limits": `A limit is [ALGORITHM:]COUNT/PERIOD, with an option after a comma:

  10/1m                             ten a minute; a token bucket
  1k/day                            a thousand a day
  token-bucket:10/1m,burst=20       bursts of 20, then one every 6 seconds
  leaky-bucket:10/1m                the same, and says when each has its turn
  fixed-window:10/1m                ten in each minute of the clock
  fixed-window:1M/1mo,tz=Asia/Tokyo a million in each month of Tokyo
  sliding-log:10/1m                 exactly ten in any 60 seconds
  sliding-counter:10/1m             about ten in any 60 seconds
  sliding-counter:10/1m,slices=60   the same, more exactly

COUNT is a whole number; 1k, 2M and 1_000 are thousands. PERIOD is a duration
such as 500ms, 10s, 1m, 2h or 1d, or a word: second, minute, hour, day, week.
Flags and files take numbers and durations in the same forms.

A bucket gives back units all the time: 5/1d lets five through at once, and then
one every 4.8 hours. Five on a calendar day (UTC) are fixed-window:5/1d.

Repeat --limit, or put commas between, to decide several limits together: all
are charged, or none.`,
		"patterns": cli.SelectionHelp, "exit-codes": exitCodes(), "environment": variablesText()}
}

// exitCodeLines are the exit codes with their meanings.
func exitCodeLines() [][2]string {
	return [][2]string{
		{"0", "yes, done"},
		{"1", "no: denied, a question not answered yes, a threshold missed or not judged, too little seen for a " +
			"verdict, " +
			"a regression, found with --fail-if-any"},
		{"2", "usage or configuration; nothing was done"},
		{"3", "the store was unreachable, or gave no answer in time"},
		{"4", "the store refused: login, ACL, foreign data, out of memory"},
		{"5", "partly done"},
		{"130", "interrupted"},
	}
}

// exitCodesMore is what the help says below the exit codes.
const exitCodesMore = `"limitctl run" has the exit code of its command; if that did not run, 75
instead of 1, 69 instead of 3, and 126 or 127 for a command that cannot start.

A gate that only asks "may I?" needs one test:

  if limitctl consume -q deploys --limit 3/1h; then ./deploy.sh; fi

The test "if" takes a store that is away for a no. Where that matters, give
--on-error allow, or look at the code.`

func exitCodes() string {
	var b strings.Builder
	for _, line := range exitCodeLines() {
		fmt.Fprintf(&b, "%-3s  %s\n", line[0], line[1])
	}
	return b.String() + "\n" + exitCodesMore
}

func variablesText() string {
	var b strings.Builder
	for _, variable := range variables() {
		fmt.Fprintf(&b, "%-23s %s\n", variable[0], variable[1])
	}
	return b.String() + "\nA flag goes before a variable, and a variable before the configuration."
}

// variables are the environment variables that limitctl reads, each with what it is for.
func variables() [][2]string {
	return [][2]string{
		{"LIMITCTL_STORE", "the default of --store"},
		{"LIMITCTL_CONTEXT", "the default of --context; set this or LIMITCTL_STORE"},
		{"LIMITCTL_CONFIG", "the default of --config"},
		{"LIMITCTL_PASSWORD", "the password of the store; a context can name another variable or a file"},
		{"LIMITCTL_SERVE_TOKEN", "the access token of serve, instead of --token-file"},
		{"LIMITCTL_DEBUG", "1: print where a bug of limitctl is"},
		{"CI", "not empty, 0 or false: a command that decides or changes needs a store by name; so with " +
			"GITHUB_ACTIONS"},
		{"NO_COLOR", "not empty: print no colours; so with CLICOLOR=0"},
		{"FORCE_COLOR", "not empty, 0 or false: print colours into a pipe, too; so with CLICOLOR_FORCE"},
		{"XDG_CONFIG_HOME", "the folder of limitctl/limitctl.yaml (default ~/.config)"},
		{"XDG_STATE_HOME", "the folder of the audit log, the backups and the default store (default ~/.local/state)"},
	}
}
