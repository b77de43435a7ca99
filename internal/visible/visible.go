// Package visible shows texts that strangers wrote so that people see all of them, and
// so that nothing in them does anything to a terminal.
package visible

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Rune reports whether a character is one that people see, and that does nothing to
// its neighbours. Go counts some letters as printable that are blank on every screen.
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

// isPlain reports whether all of a text is printable ASCII, as most is.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// isAll reports whether people see all of a text.
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

// Append appends the first character of text, escaped as Go escapes it if people
// would not see it (\x1b, \u202e), and a byte that is not UTF-8 as that byte (\xff). It
// returns how many bytes of text that was.
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

// Escape returns text on one line and with all that people would not see escaped. What
// is escaped already stays as it is.
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

// Quote returns a name or a value as people can trust to see it: quoted, as Go
// quotes it, if it holds characters that are invisible or change the direction of
// others, or is not UTF-8.
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
