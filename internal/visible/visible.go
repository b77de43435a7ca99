// Package visible shows texts of strangers completely, and without an effect on a terminal.
package visible

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Rune reports whether a character is visible and does not affect its neighbours. Go counts some letters as
// printable that are blank on every screen.
func Rune(r rune) bool {
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
		if !Rune(r) {
			return false
		}
	}
	return utf8.ValidString(text)
}

// Append appends the first character of text, with Go's escape if it is not visible (\x1b, \u202e), and a byte that
// is not UTF-8 as that byte (\xff). It returns the number of bytes of text.
func Append(to, text []byte) (longer []byte, size int) {
	r, size := utf8.DecodeRune(text)
	switch {
	case r == utf8.RuneError && size == 1:
		const digits = "0123456789abcdef"
		return append(to, '\\', 'x', digits[text[0]>>4], digits[text[0]&0xf]), size
	case Rune(r):
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
		escaped, size = Append(escaped, rest)
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
		quoted, size = Append(quoted, rest)
	}
	return string(append(quoted, '"'))
}
