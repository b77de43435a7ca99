package output

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"
)

// signs are the characters beyond ASCII that limitctl's own texts have, each with the ASCII that takes its place where
// they cannot be shown. Both take the same columns.
var signs = map[rune]string{
	'✓': "+", '✗': "X", '⚑': "*", '±': "~", '⊘': "!", '∞': "*", '≥': ">", '≤': "<", '≠': "!", '×': "x", '…': "~",
	'·': ".", '•': "*", '●': "*", '−': "-", '–': "-", '—': "-", 'µ': "u", 'μ': "u", '‹': "<", '›': ">",
	'→': ">", '←': "<", '↑': "^", '↓': "v", '▸': ">", '▴': "^", '▾': "v",
	'▏': "_", '▕': "|", '█': "#", '░': ".",
	'▁': ".", '▂': ":", '▃': "-", '▄': "=", '▅': "+", '▆': "*", '▇': "%",
	'╭': "+", '╮': "+", '╰': "+", '╯': "+", '─': "-", '│': "|",
}

// ASCII returns a text with ASCII in place of limitctl's signs. All else stays, since names can have any characters.
func ASCII(text string) string {
	return replaceSigns(text, func(_ rune, ascii string) string { return ascii })
}

// escapeSigns returns a name with escapes for signs, so that it is not taken for another name after [ASCII].
func escapeSigns(name string) string {
	return replaceSigns(name, func(sign rune, _ string) string { return fmt.Sprintf(`\u%04x`, sign) })
}

func replaceSigns(text string, by func(sign rune, ascii string) string) string {
	if strings.IndexFunc(text, func(r rune) bool { return signs[r] != "" }) < 0 {
		return text
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if ascii := signs[r]; ascii != "" {
			b.WriteString(by(r, ascii))
		} else {
			b.WriteString(rest[:size]) // also a byte that is not UTF-8
		}
		rest = rest[size:]
	}
	return b.String()
}

// OnlyASCII reports whether the variables of the environment name a locale without UTF-8: C, POSIX, or one of another
// character set. Without any of them it is false: that is usual in containers, whose terminal is somebody's own.
func OnlyASCII(getenv func(name string) string) bool {
	locale := strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	return locale != "" && !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
}
