package cmd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/internal/tier"
)

// patientVariable gives limitctl in a process of the tests all the time that an answer needs.
const patientVariable = "LIMITCTL_TEST_PATIENT"

// hostileSubjects are such as somebody may paste, one or two of each kind: what a shell substitutes, separates,
// redirects, quotes, expands and recalls. What they run, if anything does, leaves a file PWNED or another one.
func hostileSubjects() []string {
	return []string{
		"$(touch PWNED)", "`touch PWNED`", "$(touch$IFS''PWNED)1", "$HOME", "; touch PWNED #", "&touch PWNED&",
		">PWNED", "<(touch PWNED)",
		"=(touch PWNED)", "*(e:touch PWNED:)", "a  b", "'", `"`, `\`, `'"$(touch PWNED)`, `'; touch PWNED; '`, "!touch",
		"a==ls", "#x",
		"--config=PWNED", "$'touch PWNED'", "$(touch PWNED", "`touch PWNED", "\u202ertl", "a=$(touch PWNED)",
	}
}

// filesAtWork are the files where the shells are.
func filesAtWork() []string {
	return []string{"limitctl.yaml", "backup.jsonl", "saved.json", "saved.txt", "f$(touch PWNED);`touch PWNED`.jsonl",
		"r$(touch PWNED) '\".json"}
}

// shellUnderTest is a shell at its prompt on a terminal, completing for limitctl.
type shellUnderTest struct {
	*terminal
	dir   string // it is in
	lines string // file of the lines that were on it
	asked int
}

// startShell starts a shell in a directory of its own, and waits for its prompt.
func startShell(t *testing.T, program string, args []string, setUp string) *shellUnderTest {
	t.Helper()
	home := t.TempDir()
	s := &shellUnderTest{terminal: openTerminal(t), dir: filepath.Join(home, "work"),
		lines: filepath.Join(home, "lines")}
	limitctl, err := exec.LookPath("limitctl")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"set-up":                 setUp,
		".zshrc":                 setUp,
		"lines":                  "",
		"limitctl/limitctl.yaml": "contexts: {prod: {store: \"redis://127.0.0.1:1\"}}\n",
		"work/limitctl.yaml": "policies: {login: {limits: [{name: ip, by: [ip], limit: 10/1h}, " +
			"{name: e-mail, by: [email], limit: 10/1h}]}}\n",
	}
	for _, name := range filesAtWork() {
		if path := filepath.Join("work", name); texts[path] == "" {
			texts[path] = ""
		}
	}
	for path, text := range texts {
		if err := files.Write(filepath.Join(home, path), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(home, "bin")
	if err := errors.Join(os.Mkdir(bin, 0o700), os.Symlink(limitctl, filepath.Join(bin, "limitctl"))); err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%s; `make setup` installs it", err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home,
		"XDG_STATE_HOME="+home, "LANG=C.UTF-8", "LC_ALL=C.UTF-8",
		"TERM=xterm", "LINES_OF="+s.lines, "HISTFILE=", "ZDOTDIR="+home, patientVariable+"=1")
	s.run(cmd)
	s.wait(0, "READY>") // and not before the shell reads each key
	if got := s.tab("limitctl vers", "\t"); strings.TrimSpace(got) != "limitctl version" {
		t.Fatalf("%s completes nothing: %q\n%s", program, got, s.text(0))
	}
	return s
}

// tab types a line and keys that complete, and returns what the line is then.
func (s *shellUnderTest) tab(line, keys string) string {
	s.Helper()
	s.asked++
	if _, err := s.keyboard.WriteString(line + keys + "\x18d\x15"); err != nil {
		s.Fatal(err)
	}
	var seen []string
	eventually(s.T, fmt.Sprintf("the shell tells what became of %q; the last that it wrote is %.2000q",
		line, s.text(max(0, len(s.text(0))-2000))), func() bool {
		text, err := os.ReadFile(s.lines)
		if err != nil {
			s.Fatal(err)
		}
		seen = strings.Split(string(text), "\x00")
		return len(seen) > s.asked
	})
	return strings.TrimSuffix(seen[s.asked-1], "\n")
}

// checkUnharmed looks for the files that something would have left that ran.
func (s *shellUnderTest) checkUnharmed(after string) {
	s.Helper()
	files, err := os.ReadDir(s.dir)
	if err != nil {
		s.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(filesAtWork(), file.Name()) {
			s.Fatalf("after a Tab behind %q there is a file %q: something ran", after, file.Name())
		}
	}
}

const (
	setUpBash = `bind 'set completion-query-items 0'; bind 'set page-completions off'; bind 'set bell-style none'
bind 'set enable-bracketed-paste off'
source <(limitctl completion bash)
alias lc=limitctl; complete -o default -F __start_limitctl lc
tell() { printf '%s\0' "$READLINE_LINE" >>"$LINES_OF"; }
bind -x '"\C-xd": tell'
PS1='READY> '
`
	setUpZsh = `unset zle_bracketed_paste; LISTMAX=100000
autoload -U compinit; compinit -u -d ~/zcompdump
source <(limitctl completion zsh)
alias lc=limitctl
tell() { print -rN -- "$BUFFER" >>"$LINES_OF" }
zle -N tell; bindkey '^Xd' tell; bindkey '^U' kill-whole-line
PS1='READY> '
`
	setUpFish = `limitctl completion fish | source
alias lc=limitctl
function tell; commandline >>$LINES_OF; printf '\0' >>$LINES_OF; end
bind \cxd tell; bind \cu kill-whole-line
function fish_prompt; echo 'READY> '; end
`
)

// bashCompletion is the package for bash, where Debian and others have it.
const bashCompletion = "/usr/share/bash-completion/bash_completion"

// shellsUnderTest are the shells, each with its package for completion and without.
var shellsUnderTest = []struct {
	name, program string
	args          []string
	setUp         string
}{
	{"bash", "bash", []string{"--rcfile", "../set-up", "-i"}, "source " + bashCompletion + "\n" + setUpBash},
	{"zsh", "zsh", []string{"-d", "-i"},
		"setopt extendedglob magicequalsubst globsubst shwordsplit rcquotes kshglob autocd\n" + setUpZsh},
	{"fish", "fish", []string{"--no-config", "-i", "-C", "source ../set-up"}, setUpFish},
}

// A shell completes what is meant, and runs nothing of what is typed and of what files are called.
func TestCompletionInShells(t *testing.T) {
	tier.Full(t, "bash, zsh and fish")
	t.Parallel()
	if _, err := os.Stat(bashCompletion); err != nil {
		t.Fatalf("%s; `make setup` installs it", err)
	}
	for _, test := range shellsUnderTest {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startShell(t, test.program, test.args, test.setUp)
			for _, c := range []struct{ line, want string }{
				{"limitctl ins", "limitctl inspect "},
				{"lc ins", "lc inspect "},
				{"limitctl inspect user:42 --context pr", "limitctl inspect user:42 --context prod "},
				{"limitctl inspect user:42 --output=cs", "limitctl inspect user:42 --output=csv "},
				{"limitctl reset --policy lo", "limitctl reset --policy login "},
				{"limitctl reset --policy login --limit-name e", "limitctl reset --policy login --limit-name e-mail "},
				{"limitctl reset user:42 --backup back", "limitctl reset user:42 --backup backup.jsonl "},
				{"limitctl inspect user:42 > sav", "limitctl inspect user:42 > saved."},
				{"limitctl completion fi", "limitctl completion fish "},
			} {
				if got := s.tab(c.line, "\t"); got != c.want {
					t.Errorf("%s<Tab> becomes %q, want %q", c.line, got, c.want)
				}
			}
			// fish offers all files.
			if got := s.tab("limitctl report sav", "\t"); got != "limitctl report saved.json " &&
				test.program != "fish" {
				t.Errorf("a report completes to %q", got)
			}
			from := len(s.text(0))
			s.tab("limitctl co", "\t\t")
			s.wait(from, `consume.*Take`, `Check and explain`) // what they mean

			for _, line := range []string{"limitctl inspect ", "limitctl reset '", "limitctl inspect '$(",
				"limitctl inspect x --context ",
				"limitctl undo f", "limitctl report r", "limitctl reset --backup=f"} {
				s.tab(line, "\t\t\t")
				s.checkUnharmed(line)
			}
			for _, subject := range hostileSubjects() {
				quoted, ok := shell.Quote(subject)
				if !ok {
					t.Fatal(subject)
				}
				line := "limitctl inspect " + quoted + " --ex"
				if subject[0] == '-' {
					line = "limitctl inspect --context " + quoted + " --ex"
				}
				// bash itself takes what follows these, in quotes or not, for another command.
				another := test.program == "bash" && strings.ContainsAny(subject[len(subject)-1:], "`&")
				if got, want := s.tab(line, "\t"), line+"act "; got != want && !another {
					t.Errorf("%s<Tab> becomes %s, want %s", line, got, want)
				}
				for _, line := range []string{"limitctl inspect " + quoted, "limitctl inspect " + strings.TrimRight(
					quoted, `'"`)} {
					s.tab(line, "\t\t")
					s.checkUnharmed(line)
				}
			}
		})
	}
}
