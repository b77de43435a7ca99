// Package shell quotes words so that bash, zsh and fish read them back unchanged.
package shell

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/texts"
)

// IsPlain reports whether no shell, under any options, gives word another meaning: it has letters and digits of any
// script, and some ASCII that is never special. An equals sign has to follow a letter or digit, since zsh reads =ls
// as a path.
func IsPlain(word string) bool {
	if word == "" || !utf8.ValidString(word) {
		return false
	}
	before := ' '
	for _, r := range word {
		switch {
		case strings.ContainsRune("-_./:@,+", r):
		case r == '=' && (isWord(before) || before == '_' || before == '-'):
		case isWord(r):
		default:
			return false
		}
		before = r
	}
	return true
}

// isWord reports whether r is a visible letter or digit. Combining marks change their neighbours, so they do not
// count.
func isWord(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsDigit(r)) && isVisible(r)
}

// isVisible reports whether r is visible by itself. That is stricter than on a screen, where a variation selector
// belongs to the emoji before it: without one, it is invisible.
func isVisible(r rune) bool { return texts.IsVisible(r) && !unicode.Is(unicode.Variation_Selector, r) }

// Quote writes a word in the one form that bash, zsh and fish all read back unchanged, in scripts and at their
// prompts, on one line and without invisible characters. ok is false if there is no such form: for a word with a
// NUL, which no program can get, or with a line break at its end, which they all drop.
//
// Visible characters go in single quotes, except the single quote and the backslash: fish has escapes within
// quotes, and the others have none. Invisible ones go through printf.
func Quote(word string) (quoted string, ok bool) {
	switch {
	case strings.ContainsRune(word, 0) || strings.HasSuffix(word, "\n"):
		return "", false
	case word == "":
		return "''", true
	case IsPlain(word):
		return word, true
	}
	var b strings.Builder
	for word != "" {
		n := beginning(word, isQuotable)
		if n > 0 {
			b.WriteString("'" + word[:n] + "'")
		} else if word[0] == '\'' || word[0] == '\\' {
			n = 1
			b.WriteString(`\` + word[:n])
		} else {
			n = beginning(word, func(r rune) bool { return r == utf8.RuneError || !isVisible(r) })
			if word[n-1] == '\n' { // the shell would drop it at the end
				_, size := utf8.DecodeRuneInString(word[n:])
				n += size
			}
			b.WriteString(`"$(printf '`)
			for i := range n {
				fmt.Fprintf(&b, `\%03o`, word[i])
			}
			b.WriteString(`')"`)
		}
		word = word[n:]
	}
	return b.String(), true
}

// isQuotable reports whether r can be in single quotes in every shell, and is visible.
func isQuotable(r rune) bool {
	return r != '\'' && r != '\\' && r != utf8.RuneError && isVisible(r)
}

// beginning returns the length in bytes of the longest beginning of word whose characters satisfy is. Bytes that
// are not UTF-8 count as utf8.RuneError.
func beginning(word string, is func(rune) bool) (n int) {
	for n < len(word) {
		r, size := utf8.DecodeRuneInString(word[n:])
		if !is(r) {
			break
		}
		n += size
	}
	return n
}

// unwritable replaces a command that cannot be written. To a shell it is a comment, or no command.
const unwritable = "# no line can hold this command: a word of it ends with a line break"

// Command writes a command as a line to paste in a shell, or [unwritable].
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		var ok bool
		if quoted[i], ok = Quote(word); !ok {
			return unwritable
		}
	}
	return strings.Join(quoted, " ")
}

// Unlink writes the command that deletes a key of Redis, whatever it holds.
func Unlink(storeKey string) string { return Command("redis-cli", "UNLINK", storeKey) }

// Words reads the words of a [Command] back, even if it was cut off. A printf in it stays as it is.
func Words(line string) (words []string) {
	var word strings.Builder
	for line != "" {
		text, rest := line[:1], line[1:]
		switch text {
		case " ":
			words, text = append(words, word.String()), ""
			word.Reset()
		case `'`, `"`:
			text, rest, _ = strings.Cut(rest, text)
		case `\`:
			text, rest = rest[:min(1, len(rest))], rest[min(1, len(rest)):]
		}
		word.WriteString(text)
		line = rest
	}
	return append(words, word.String())
}

// SetUserBegins is the beginning of the commands of [SetUser].
const SetUserBegins = "redis-cli ACL SETUSER "

// SetUser writes the command that gives a Redis user more rights. It has no login, which depends on the
// administrator.
func SetUser(user string, rules ...string) string {
	return Command(append(append(strings.Fields(SetUserBegins), user), rules...)...)
}
