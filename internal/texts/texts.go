// Package texts escapes text that a terminal must not obey, cuts text at a character, guesses the name that a misspelt
// word means, and compiles patterns at their first use. It imports only the standard library, since services get it
// with their store.
package texts

import (
	"regexp"
	"strconv"
	"sync"
	"unicode"
	"unicode/utf8"
)

// IsVisible reports whether a character is visible and does not affect its neighbours. Go counts some letters as
// printable that are blank on every screen.
func IsVisible(r rune) bool {
	const brailleBlank, textStyle, emojiStyle = '\u2800', '\ufe0e', '\ufe0f'
	switch {
	case r < utf8.RuneSelf:
		return ' ' <= r && r <= '~'
	case r == textStyle, r == emojiStyle: // they belong to the emoji before them
		return true
	case r == brailleBlank, unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return false
	}
	return strconv.IsPrint(r)
}

// isPlain reports whether all of a text is printable ASCII, as usual.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// isAll reports whether all of a text is visible.
func isAll(text string) bool {
	if isPlain(text) {
		return true
	}
	for _, r := range text {
		if !IsVisible(r) {
			return false
		}
	}
	return utf8.ValidString(text)
}

// AppendEscaped appends the first character of text, with Go's escape if it is not visible (\x1b, \u202e), and a byte
// that is not UTF-8 as that byte (\xff). It returns the number of bytes of text.
func AppendEscaped(to, text []byte) (longer []byte, size int) {
	r, size := utf8.DecodeRune(text)
	switch {
	case r == utf8.RuneError && size == 1:
		const digits = "0123456789abcdef"
		return append(to, '\\', 'x', digits[text[0]>>4], digits[text[0]&0xf]), size
	case IsVisible(r):
		return append(to, text[:size]...), size
	}
	quoted := strconv.AppendQuoteRuneToASCII(nil, r)
	return append(to, quoted[1:len(quoted)-1]...), size
}

// Escape returns text on one line, with escapes for what is not visible. Existing escapes stay.
func Escape(text string) string {
	if isAll(text) {
		return text
	}
	escaped := make([]byte, 0, len(text)+16)
	for rest, size := []byte(text), 0; len(rest) > 0; rest = rest[size:] {
		escaped, size = AppendEscaped(escaped, rest)
	}
	return string(escaped)
}

// Quote returns a name or a value in a form that cannot deceive: with Go's quotes if it has characters that are
// invisible or change the direction of others, or is not UTF-8.
func Quote(text string) string {
	if isAll(text) {
		return text
	}
	quoted := append(make([]byte, 0, len(text)+16), '"')
	for rest, size := []byte(text), 0; len(rest) > 0; rest = rest[size:] {
		if rest[0] == '"' || rest[0] == '\\' {
			quoted = append(quoted, '\\')
		}
		quoted, size = AppendEscaped(quoted, rest)
	}
	return string(append(quoted, '"'))
}

// Prefix returns the longest beginning of text with at most that many bytes that does not end within a character.
func Prefix(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	end := max(bytes, 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Nearest returns the name that differs from the given one in the fewest letters, at most most; otherwise "".
func Nearest(name string, names []string, most int) string {
	best, least := "", most+1
	for _, candidate := range names {
		if d := distance(name, candidate, least); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance is the number of letters to insert, remove or replace to make a from b (the Levenshtein distance, in
// bytes), or enough if it is not below that.
func distance(a, b string, enough int) int {
	if len(a)-len(b) >= enough || len(b)-len(a) >= enough {
		return enough
	}
	var short [24]int // so that names of usual length allocate nothing
	row := short[:0]
	for j := range len(b) + 1 {
		row = append(row, j)
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// Regexp returns a function that returns the regular expression, and compiles it once. It panics on the first use if
// text is no regular expression.
func Regexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
