package cmd

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// answersOf gives what one decider answered, which may be nothing: a server that hangs before
// its first answer arrived is in no row.
func answersOf(r *report.Run, decider store.Decider) report.Answers {
	for _, answers := range r.ByDecider {
		if answers.DecidedBy == decider.String() {
			return answers
		}
	}
	return report.Answers{}
}

// A server that hangs from the first answer on is an outage that each policy answers in its
// own way. None of that counts as the limit's.
func TestALoadTestShowsAnOutageBeforeItHappens(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	t.Parallel()
	for policy, check := range map[string]func(r *report.Run) bool{
		"fail": func(r *report.Run) bool {
			return r.Errors > 0 && r.Local == 0 && r.Unguarded == 0 && r.ErrorLatency != nil
		},
		"allow": func(r *report.Run) bool {
			return r.Errors == 0 && r.Unguarded > 100 && answersOf(r, store.DecidedByFailurePolicy).Allowed == r.Unguarded
		},
		"deny": func(r *report.Run) bool {
			return r.Errors == 0 && r.Unguarded > 100 && answersOf(r, store.DecidedByFailurePolicy).Denied == r.Unguarded
		},
		"local=10%": func(r *report.Run) bool {
			return r.Errors == 0 && r.Local > 100 && answersOf(r, store.DecidedByLocal).Allowed == 4
		},
	} {
		t.Run(policy, func(t *testing.T) {
			var state *os.ProcessState
			var stdout, stderr string
			// On a busy machine the server may be too late for the run to begin.
			for timeout := 100 * time.Millisecond; timeout < patience; timeout *= 4 {
				server := redistest.Start(t)
				state, stdout, stderr = underLoad(t, server, func(*os.Process) { server.Pause() }, "--limit", "40/366d",
					"--rate", "300", "--duration", "2s", "--timeout", timeout.String(), "--on-error", policy, "--breaker", "-o", "json",
					anyErrors,
					"--threshold", "over_admitted==0")
				if state.ExitCode() != exitUnreachable {
					break
				}
			}
			var document report.Document
			if err := json.Unmarshal([]byte(stdout), &document); err != nil || len(document.Runs) != 1 {
				t.Fatalf("%v: %s%s", err, stdout, stderr)
			}
			r := &document.Runs[0]
			if !check(r) || r.Requests != r.Allowed+r.Denied+r.Local+r.Unguarded+r.Errors || !document.Thresholds[0].OK {
				t.Errorf("%+v", r.Figures)
			}
			// Of a server that hangs, keys stay behind.
			if state.ExitCode() != 5 || !strings.Contains(stderr, "could not all be removed") {
				t.Errorf("exit %d: %s", state.ExitCode(), stderr)
			}
		})
	}
}
