package cmd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

// Overrides are about strangers, and give reasons that are anybody's.
func TestHostileSubjectsInOverrides(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	w, _, subjects := hostileStore(t)
	reasons := hostiletext.Texts()
	for i, subject := range subjects {
		reason := "why: " + reasons[i%len(reasons)]
		format := output.Formats()[i%len(output.Formats())]
		w.OutIsTerminal = i%2 == 0 && format == "table"
		w.try(t, "override", "set", "--exact", "--times", "2", "--for", "1h", "--dry-run", "--", subject)
		for _, command := range [][]string{{"override", "set", "--times", "2"}, {"block"}, {"exempt"}} {
			if i%3 == len(command)%3 {
				continue
			}
			args := append(command, "--exact", "--for", "1h", "--reason", reason, "--yes", "-o", format, "--", subject)
			if stdout, _ := w.try(t, args...); format != "table" && stdout != "" {
				parsed(t, format, stdout)
			}
		}
		w.try(t, "check", "--limit", "10/1h", "--", subject)
		w.try(t, "override", "list", "--exact", "--", subject)
		if i%4 == 0 {
			w.try(t, "unblock", "--exact", "--yes", "-o", format, "--", subject)
		}
	}
	for _, terminal := range []bool{false, true} {
		w.OutIsTerminal = terminal
		for _, args := range [][]string{{"override", "list"}, {"inspect", "*", "--all"}, {"audit"}, {"denials"}, {"undo", "--list"},
			{"dashboard", "--once"}, {"doctor"}} {
			w.try(t, args...)
		}
	}
	w.OutIsTerminal = false
	for _, format := range machineFormats {
		stdout, _ := w.try(t, "override", "list", "-o", format)
		if got := textsOf(parsed(t, format, stdout)); len(got) < len(subjects) {
			t.Errorf("overrides of %d subjects are %d texts as %s", len(subjects), len(got), format)
		}
	}
}

// What somebody else has written to the keys beside the limits breaks no command, and
// decisions are made as if it were not there. What a store makes of each such value is proved in redisstore.
func TestForeignValuesUnderThePrefix(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	w, server := newWorld(t), redistest.Start(t)
	before := w.Getenv
	w.Getenv = func(name string) string {
		if name == "LIMITCTL_STORE" {
			return "redis://" + server.Addr
		}
		return before(name)
	}
	w.run(t, exitYes, "consume", "a", "--limit", "10/1h")
	w.run(t, exitYes, "override", "set", "nobody:*", "--times", "2", "--for", "1h", "--reason", "r", "--yes")
	w.run(t, exitYes, "reset", "--exact", "a", "--yes")
	keys := []string{"rl!{audit}", "rl!{override}", "rl!id"}
	for minute := time.Now().Unix() / 60; len(keys) < 7; minute++ { // this one and the next
		keys = append(keys, fmt.Sprintf("rl!{denials:%d}:%d", minute/10, minute), fmt.Sprintf("rl!{denials:%d}", minute/10))
	}
	all, _ := server.Do("KEYS", "rl!*").([]any)
	for _, key := range all {
		if !slices.Contains(keys, fmt.Sprint(key)) {
			keys = append(keys, fmt.Sprint(key))
		}
	}
	const junk = "\x1b]0;PWNED\x07\xff\r\n{\"a\":1}"
	values := [][]any{
		{"SET", junk}, {"SET", ""}, {"SET", strings.Repeat("\x00", 5000)}, {"SET", strings.Repeat("9", 3000)}, {"RPUSH", junk},
		{"SADD", junk},
		{"HSET", junk, junk}, {"HSET", "0", "9223372036854775807"}, {"ZADD", "1", junk}, {"XADD", "*", junk, junk},
		{"XADD", "*", "text", junk},
		{"XADD", "18446744073709551615-18446744073709551615", "text", "{}"},
	}
	round := 0
	with := func(value []any, keys ...string) {
		for _, key := range keys {
			server.Do("DEL", key)
			server.Do(append([]any{value[0], key}, value[1:]...)...)
		}
		round++
		w.run(t, exitYes, "check", "decided", "--limit", "10/1h")
		w.run(t, exitYes, "consume", fmt.Sprintf("decided:%d", round), "--limit", "10/1h")
		for _, args := range [][]string{
			{"inspect", "decided*"}, {"inspect", "*", "--summary", "-o", "json"}, {"reset", "decided:1*", "--yes"}, {"denials"},
			{"denials", "-o", "json"}, {"audit"}, {"audit", "-o", "csv"}, {"override", "list"}, {"override", "list", "-o", "json"},
			{"override", "set", "x", "--add", "1", "--for", "1h", "--reason", "r", "--yes"}, {"unblock", "x", "--yes"},
			{"override", "revoke", "3f9a1c", "--yes"}, {"undo", "--yes"}, {"doctor"}, {"dashboard", "--once"}, {"config", "diff"},
			{"settle", "decided", "--limit", "10/1h", "--token", "a", "--cost", "1"}, {"refund", "decided", "--limit", "10/1h"},
		} {
			w.try(t, args...)
			if text := w.err.String(); strings.Contains(text, "panic") || strings.Contains(text, "internal error") {
				t.Errorf("with %q in %s, %q says %s", value, keys, args, text)
			}
		}
	}
	for i, value := range values {
		with(value, keys...)
		// And in one alone, so that nothing that is wrong elsewhere ends a command before it comes to that.
		for _, key := range keys {
			server.Do("DEL", key)
		}
		with(value, keys[i%len(keys)])
	}
}

// The lists of commands that are tried on hostile servers and with passwords have all that
// there are, except serve, which does not end: it has TestServeOutlastsHostileServers and
// TestServeShowsNoPassword.
func TestEveryCommandIsTried(t *testing.T) {
	onServers, withPasswords := map[string]bool{}, map[string]bool{}
	for _, c := range conversations(t.TempDir()) {
		onServers[c.args[0]] = true
	}
	for _, args := range secretCommands(t.TempDir()) {
		withPasswords[args[0]] = true
	}
	// They ask no store, but for serve. Endpoints that probe asks are hostile in TestEndpointsThatAreHostile,
	// and have passwords in TestPasswordsOfProbedEndpointsAreNotShown.
	notListed := strings.Fields("completion help layouts options probe report serve version")
	elsewhere := append(slices.Clone(notListed), "context")
	for _, cmd := range newRootCmd(&cli.Globals{Env: newWorld(t).Env}).Commands() {
		name := cmd.Name()
		if !onServers[name] && !slices.Contains(elsewhere, name) {
			t.Errorf("%s is not tried on hostile servers", name)
		}
		if !withPasswords[name] && !slices.Contains(notListed, name) {
			t.Errorf("%s is not tried with passwords", name)
		}
	}
}
