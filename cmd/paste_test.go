package cmd

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/tier"
)

// paste runs a line in a shell as if it had been pasted there, with the commands that
// are given as scripts, and returns what it printed.
func paste(t *testing.T, program, line string, commands map[string]string, env ...string) string {
	t.Helper()
	tier.Full(t, "bash, zsh and fish")
	dir := t.TempDir()
	for name, text := range commands {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%s; `make setup` installs it", err)
	}
	args := map[string][]string{"bash": {"--norc", "--noprofile", "-i"}, "zsh": {"-f", "-i"},
		"fish": {"--no-config", "-i"}}[program]
	cmd := exec.Command(path, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+cmd.Dir, "HISTFILE=",
		"LANG=C.UTF-8",
		"LC_ALL=C.UTF-8", "TERM=dumb"), env...)
	cmd.Stdin = strings.NewReader(line + "\n")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run()
	if files, _ := filepath.Glob(filepath.Join(cmd.Dir, "PWNED*")); len(files) > 0 {
		t.Fatalf("%s runs a part of %s", program, line)
	}
	if t.Failed() || testing.Verbose() {
		t.Logf("%s: %s\n%s%s", program, line, &out, &errs)
	}
	return out.String()
}

// hostileTexts are values for prefixes, paths and names of users; ways that no subject
// can have are among them.
func hostileTexts() []string {
	return []string{"$(touch PWNED)", "`touch PWNED`", "it's", "'; touch PWNED; '", `\'; touch PWNED; \'`, `back\`,
		"!!", "=ls",
		"~root", "*", "a#b", "$(touch PWNED)\u00a0'", "\u202ertl"}
}

// prompts are the shells that hints are pasted into, in turn: that each reads back all that is quoted is proved in
// package shell.
var prompts = []string{"bash", "zsh", "fish"}

// The line that undoes a reset does, whatever the prefix, the file and the configuration are called.
func TestUndoLineIsSafeToPaste(t *testing.T) {
	t.Parallel()
	limitctl, err := exec.LookPath("limitctl")
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range append(hostileTexts(), "line\nbreak", "\x1b]0;PWNED\x07", "\xff", "-rf") {
		dir := t.TempDir()
		named := filepath.Join(dir, text)
		config := named + ".yaml"
		if err := os.WriteFile(config, []byte("prefix: other\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		prefix := text
		if i >= len(hostileTexts()) || strings.Contains(text, "!") {
			prefix = "ok" // as these are no prefixes
		}
		w := newWorld(t)
		options := []string{"--store", "file:" + filepath.Join(dir, "limits.db"), "--prefix", prefix, "--config",
			config}
		w.run(t, exitYes, append([]string{"consume", "user:42", "--limit", "3/1d"}, options...)...)
		out, stderr := w.run(t, exitYes, append([]string{"reset", "user:42", "--yes", "--backup", named, "-o", "json"},
			options...)...)
		var answer struct{ Undo string }
		if err := json.Unmarshal([]byte(out), &answer); err != nil ||
			!strings.Contains(stderr, "undo with: "+answer.Undo+"\n") {
			t.Errorf("it says %q, and the answer has %q, %v", stderr, answer.Undo, err)
		}
		got := paste(t, prompts[i%3], answer.Undo+" --yes", map[string]string{"limitctl": `exec ` + limitctl + ` "$@"`},
			"XDG_STATE_HOME="+t.TempDir())
		if got != "restored 1 key\n" {
			t.Errorf("%q: %s prints %q for %s", text, prompts[i%3], got, answer.Undo)
		}
	}
}

func withVariable(getenv func(string) string, name, value string) func(string) string {
	return func(asked string) string {
		if asked == name {
			return value
		}
		return getenv(asked)
	}
}
