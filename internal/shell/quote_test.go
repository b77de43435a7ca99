package shell

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/tier"
)

// hostile are words that have a special meaning for shells.
func hostile() []string {
	return []string{
		"", "plain", "user:42", "tenant:acme:user@example.com", "a=b", "=ls", "a==ls", "path:=ls", "-rf", "--", "~",
		"~root", "a:~root",
		"$(touch PWNED)", "`touch PWNED`", "${HOME}", "$HOME", "; touch PWNED", "&& touch PWNED", "| touch PWNED",
		"& touch PWNED",
		"it's", "''", "'", "'\\''", `"`, `\`, `\\`, `\'`, `a\nb`, `\` + "'$(touch PWNED)'", "!!", "!x", "a!b", "it's!!",
		`"!!"`, "^a^b",
		"a^b", "#x", "a#b", "a b", " ", "  a  ",
		"*", "?", "[a-z]", "**/*", "{a,b}", "{1..3}", "(a)", "a(N)", "*(e:touch PWNED:)", "<(touch PWNED)", ">x", "<x",
		"2>x", "%self",
		"%1", "%d%s",
		"a\tb", "a\nb", "\na", "\n\na", "a\n\nb", "\nx'y", "\n'", "\n\\", "\r", "\x1b[31m", "\x1b]0;x\x07", "\x7f",
		"\u0085", "\u00a0",
		"\u200b", "\u2800", "\u202ertl", "\u2066x\u2069", "\ufeff",
		"\u3000", "\u3164", "e\u0301", "\u034f", "\ufe0f", "\xff", "\xc3", "a\xffb\xfe", "\xed\xa0\x80", "\U0010ffff",
		"\uf8ff", "\uf600",
		"\ufdd0", "利用者:山田太郎", "שלום", "😀", "👩\u200d👩",
		"end", "and", "L", "@(a)", "+(a)", "a,b", "a;b", "\n%s", "\x01%s", "\n\x01", "\x011", "\n7", "\x010",
	}
}

// Every shell gets the words as its script, and answers with what it read.
var shells = map[string][]string{
	"bash":               {"bash", "--norc", "--noprofile"},
	"bash at its prompt": {"bash", "--norc", "--noprofile", "-i", "-H"},
	"bash as sh":         {"bash", "--norc", "--noprofile", "--posix"},
	"zsh at its prompt":  {"zsh", "-f", "-i", "+Z", "-o", "banghist"},
	"zsh with all that expands more": {"zsh", "-f", "-o", "extendedglob", "-o", "magicequalsubst", "-o", "nomatch",
		"-o", "rcquotes",
		"-o", "kshglob", "-o", "braceccl", "-o", "globsubst", "-o", "shwordsplit"},
	"fish at its prompt": {"fish", "--no-config", "-i"},
}

// readBack returns what a shell reads from the quoted words. It has no PATH, so that a word that is executed runs
// nothing.
func readBack(t testing.TB, shell string, quoted []string) []string {
	t.Helper()
	tier.Full(t, "bash, zsh and fish")
	var script strings.Builder
	for i := 0; i < len(quoted); i += 20 {
		script.WriteString("printf '%s\\0' " + strings.Join(quoted[i:min(i+20, len(quoted))], " ") + "\n")
	}
	path, err := exec.LookPath(shells[shell][0])
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, shells[shell][1:]...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"LANG=C.UTF-8", "HOME=" + cmd.Dir, "PATH=/nowhere", "TERM=dumb"}
	cmd.Stdin = strings.NewReader(script.String())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	words := strings.Split(out.String(), "\x00")
	if err != nil || len(words) != len(quoted)+1 {
		t.Logf("%s: %v: it read %d words of %d\n%.2000s", shell, err, len(words)-1, len(quoted), errs.String())
	}
	return words[:len(words)-1]
}

func TestQuoteIsReadBackByEveryShell(t *testing.T) {
	var words, quoted []string
	for _, word := range hostile() {
		for _, word := range []string{word, word + "'", "'" + word, `\` + word, word + `\`, "x" + word, word + "!!",
			"=" + word, word + "=~" + word, word + "\n" + word + "."} {
			q, ok := Quote(word)
			if !ok {
				if !strings.HasSuffix(word, "\n") {
					t.Errorf("%q cannot be written", word)
				}
				continue
			}
			words, quoted = append(words, word), append(quoted, q)
		}
	}
	for shell := range shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			read := readBack(t, shell, quoted)
			for i, word := range words {
				if i >= len(read) || read[i] != word {
					t.Fatalf("%q is written as %s, and read as %q", word, quoted[i],
						append(read, "(nothing)")[min(i, len(read))])
				}
			}
		})
	}
}

func TestQuote(t *testing.T) {
	for _, test := range []struct{ word, want string }{
		{"", "''"}, {"user:42", "user:42"}, {"--store=redis://x:1/2", "--store=redis://x:1/2"}, {"a b", "'a b'"},
		{"it's", `'it'\''s'`},
		{`a\b`, `'a'\\'b'`}, {"a\x1b[m", `'a'"$(printf '\033')"'[m'`}, {"\n é", `"$(printf '\012\040')"'é'`},
		{"=ls", "'=ls'"},
		{"山田", "山田"}, {"a\u2800b", `'a'"$(printf '\342\240\200')"'b'`}, {"❤\ufe0f", `'❤'"$(printf '\357\270\217')"`},
	} {
		if got, ok := Quote(test.word); !ok || got != test.want {
			t.Errorf("Quote(%q) = %s, %t, want %s", test.word, got, ok, test.want)
		}
	}
	for _, word := range hostile() {
		quoted, ok := Quote(word)
		if strings.ContainsFunc(quoted, func(r rune) bool { return r == utf8.RuneError || !isVisible(r) }) || !ok {
			t.Errorf("%q is written as %q, with what cannot be seen", word, quoted)
		}
		if IsPlain(word) != (quoted == word) {
			t.Errorf("%q is plain: %t, and written as %s", word, IsPlain(word), quoted)
		}
		got := Words(quoted + " " + quoted)
		if !strings.Contains(quoted, `"$(`) && !slices.Equal(got, []string{word, word}) {
			t.Errorf("%q is written as %s, and read as %q", word, quoted, got)
		}
	}
	for _, word := range []string{"a\x00b", "a\n", "\n"} {
		if got, ok := Quote(word); ok {
			t.Errorf("Quote(%q) = %s, and no shell can hold it", word, got)
		}
		if got := Command("limitctl", word); got != unwritable {
			t.Errorf("Command(limitctl, %q) = %s", word, got)
		}
	}
	if got := Command("limitctl", "restore", "a b"); got != "limitctl restore 'a b'" {
		t.Error(got)
	}
}

func TestIsPlain(t *testing.T) {
	for _, word := range []string{"user:42", "tenant:acme:user@example.com", "a=b", "tenant=", "--store=redis://x",
		"1.5",
		"a+b,c", "_", "-"} {
		if !IsPlain(word) {
			t.Errorf("%q is plain", word)
		}
	}
	for _, word := range []string{"", "=ls", "a==ls", "a:=ls", "a\u0301", "\uffa0", "\u115f", "²", "😀", "\xff", "$(x)",
		"a b", "a%b"} {
		if IsPlain(word) {
			t.Errorf("%q is not plain", word)
		}
	}
}
