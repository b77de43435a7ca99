package shell

import (
	"strings"
	"testing"
)

func TestAnswer(t *testing.T) {
	offers := []Offer{{"tenant:a", ""}, {"tenant:b", "two"}, {"tenant:$(x)", ""}, {"-rf", ""}, {"other", ""}, {"tenant:c", "a\x1b]0;b\x07"}}
	for _, test := range []struct {
		args []string
		kind Kind
		want string
	}{
		{[]string{"fish", "limitctl", "inspect", "ten"}, Offers, "offers\ntenant:a\ntenant:b\ttwo\ntenant:c\n"},
		{[]string{"zsh", "limitctl", "'ins'pect", "'ten"}, NoSpace, "nospace\ntenant\\:a\ntenant\\:b:two\ntenant\\:c\n"},
		{[]string{"bash", "9", "80", "", "limitctl inspect tenant:"}, Offers, "offers\na\nb  (two)\nc\n"},
		{[]string{"bash", "9", "80", "ten", "limitctl inspect 'ten"}, Offers, "offers\ntenant:a\ntenant:b  (two)\ntenant:c\n"},
		{[]string{"bash", "42", "80", "ten", "limitctl inspect ten"}, Offers, "offers\ntenant:a\ntenant:b\ntenant:c\n"},
		{[]string{"no-descriptions", "fish", "limitctl", "inspect", "ten"}, Offers, "offers\ntenant:a\ntenant:b\ntenant:c\n"},
		{[]string{"bash", "9", "80", "b", "limitctl inspect tenant:b"}, Offers, "offers\nb\n"},
		{[]string{"fish", "limitctl", ""}, Offers, "offers\ntenant:a\ntenant:b\ttwo\nother\ntenant:c\n"},
		{[]string{"fish", "limitctl", "-"}, Offers, "offers\n-rf\n"},
		{[]string{"fish", "limitctl", "report", "x"}, FilesOf("json"), "files json\n"},
		{[]string{"bash", "9", "80", `a\ b`, `limitctl report a\ b`}, FilesOf("json"), "files json\na b\n"},
		{[]string{"bash", "9", "80", "x", "limitctl restore x"}, Files, "files\n"},
		{[]string{"zsh", "limitctl", "report", "x"}, FilesOf("$(x)"), "files\n"},
	} {
		r, ok := ParseRequest(test.args)
		if !ok {
			t.Fatalf("%q is no request", test.args)
		}
		if got := r.Answer(test.kind, offers); got != test.want {
			t.Errorf("%q is answered with %q, want %q", test.args, got, test.want)
		}
	}
	for _, args := range [][]string{nil, {"bash"}, {"csh", "limitctl", ""}, {"bash", "9", "80", "x"}, {"bash", "9", "80", "", ""},
		{"zsh", "limitctl"}, {"no-descriptions"}} {
		if _, ok := ParseRequest(args); ok {
			t.Errorf("%q is a request", args)
		}
	}
}

func TestScript(t *testing.T) {
	for _, shell := range Completed() {
		script, ok := Script(shell, true)
		without, _ := Script(shell, false)
		if shell == PowerShell {
			for _, runs := range []string{"Invoke-Expression", "iex ", "ExpandString", "Create("} {
				if strings.Contains(script, runs) {
					t.Errorf("the script for %s has %q, which runs words", shell, runs)
				}
			}
			if !ok || script != without || !strings.Contains(script, "& limitctl __complete @words") {
				t.Errorf("the script for %s does not hand the words over as arguments", shell)
			}
			continue
		}
		if !ok || !strings.Contains(script, Tab+" "+shell+" ") || !strings.Contains(without, Tab+" no-descriptions "+shell+" ") {
			t.Errorf("the script for %s asks otherwise", shell)
		}
		for _, runs := range []string{"eval", "compgen -W", "_filedir", "source "} {
			if strings.Contains(script, runs) {
				t.Errorf("the script for %s has %q, which runs or expands words", shell, runs)
			}
		}
	}
	if _, ok := Script("tcsh", true); ok {
		t.Error("there is a script for an unknown shell")
	}
}
