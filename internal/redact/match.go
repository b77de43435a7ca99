package redact

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// secret is a text to be found however it is written.
type secret struct {
	text  string
	units []unit
	// isWord: it is nothing but a few letters.
	isWord bool
	// isPart: it is a word of another one, which texts of our own may hold.
	isPart bool
}

// unit is a character of a secret, or a byte that belongs to none.
type unit struct {
	r     rune // utf8.RuneError for such a byte
	bytes string
}

func newSecret(text string, isPart bool) *secret {
	s := &secret{text: text, isPart: isPart, isWord: len(text) < cutOff}
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		s.units = append(s.units, unit{r, rest[:size]})
		s.isWord = s.isWord && ('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
		rest = rest[size:]
	}
	return s
}

// isIn reports whether the whole secret is anywhere in a text.
func (s *secret) isIn(text string) bool {
	for at := range len(text) {
		if matched, _ := s.match(text[at:]); matched == len(s.units) {
			return true
		}
	}
	return false
}

// match returns how many characters of the secret a text begins with, and where they
// end. Where they can be read in several ways, as backslashes can, all are followed.
func (s *secret) match(text string) (matched, end int) {
	ends := make([]int, 1, 8)
	var next []int
	for _, u := range s.units {
		next = next[:0]
		for _, at := range ends {
			next = u.appendEnds(next, text, at)
		}
		if len(next) == 0 {
			break
		}
		slices.Sort(next)
		next = slices.Compact(next)
		if len(next) > mostReadings {
			next = append(next[:1], next[len(next)-mostReadings+1:]...)
		}
		ends, next = next, ends
		matched, end = matched+1, ends[len(ends)-1]
	}
	return matched, end
}

const (
	// mostReadings bounds in how many ways a text is read at once.
	mostReadings = 8
	// mostBackslashes bounds how often over a character is escaped.
	mostBackslashes = 16
)

// appendEnds appends where u ends in text, for each way that it can be written at a
// place.
func (u unit) appendEnds(ends []int, text string, at int) []int {
	for p := at; p < len(text) && p-at <= mostBackslashes; p++ {
		ends = u.appendPlain(ends, text, p)
		ends = u.appendQuoted(ends, text, p)
		if text[p] != '\\' {
			break
		}
	}
	// Several bytes can be escaped one by one.
	places := []int{at}
	for i := range len(u.bytes) {
		var after []int
		for _, p := range places {
			after = appendEscapes(after, text, p, rune(u.bytes[i]))
		}
		places = after
	}
	ends = append(ends, places...)
	if u.r >= utf8.RuneSelf {
		ends = appendEscapes(ends, text, at, u.r)
	}
	return ends
}

// appendPlain appends where u ends if it is there without escapes. Case does not count,
// and something else may stand for what cannot be printed everywhere.
func (u unit) appendPlain(ends []int, text string, at int) []int {
	if strings.HasPrefix(text[at:], u.bytes) {
		ends = append(ends, at+len(u.bytes))
	}
	r, size := utf8.DecodeRuneInString(text[at:])
	sameLetter := u.r != utf8.RuneError && r != utf8.RuneError &&
		(unicode.ToLower(r) == unicode.ToLower(u.r) || unicode.ToUpper(r) == unicode.ToUpper(u.r))
	unprintable := u.r >= utf8.RuneSelf || u.r < ' ' || u.r == 0x7f
	if sameLetter || unprintable && strings.ContainsRune(" ?._*\ufffd", r) {
		ends = append(ends, at+size)
	}
	return ends
}

// appendQuoted appends where u ends if it is a quote that is escaped by quotes, as in
// CSV, in YAML and for a shell.
func (u unit) appendQuoted(ends []int, text string, at int) []int {
	if u.r != '\'' && u.r != '"' {
		return ends
	}
	for _, way := range []string{u.bytes + u.bytes, `'\''`, `'"'"'`, `"'"'"`} {
		if strings.HasPrefix(text[at:], way) {
			ends = append(ends, at+len(way))
		}
	}
	return ends
}

// appendEscapes appends where r ends in text, for each escape that it can be written as
// at a place.
func appendEscapes(ends []int, text string, at int, r rune) []int {
	p := at
	for p < len(text) && p-at <= mostBackslashes && text[p] == '\\' {
		p++
	}
	rest := text[p:]
	if rest == "" {
		return ends
	}
	if p > at {
		for _, way := range []struct {
			before       string
			digits, base int
		}{{"x", 2, 16}, {"u", 4, 16}, {"U", 8, 16}, {"", 3, 8}} {
			if hex, is := strings.CutPrefix(rest, way.before); is && isNumber(hex, way.digits, way.base, r) {
				ends = append(ends, p+len(way.before)+way.digits)
			}
		}
		if letter := strings.IndexByte("0abtnvfre", rest[0]); letter >= 0 && rune("\x00\a\b\t\n\v\f\r\x1b"[letter]) == r {
			ends = append(ends, p+1)
		}
		if high, low := surrogates(r); high != 0 && len(rest) >= len(`u0000\u0000`) && rest[0] == 'u' && isNumber(rest[1:], 4, 16, high) {
			second := strings.TrimLeft(rest[5:], `\`)
			if second != "" && second[0] == 'u' && isNumber(second[1:], 4, 16, low) {
				ends = append(ends, len(text)-len(second)+5)
			}
		}
	}
	switch rest[0] {
	case '%':
		digits := rest[1:]
		for strings.HasPrefix(digits, "25") { // the percent sign is escaped, too
			if isNumber(digits, 2, 16, r) {
				ends = append(ends, len(text)-len(digits)+2)
			}
			digits = digits[2:]
		}
		if isNumber(digits, 2, 16, r) {
			ends = append(ends, len(text)-len(digits)+2)
		}
	case '+':
		if r == ' ' {
			ends = append(ends, p+1)
		}
	case '&':
		if size := entity(rest, r); size > 0 {
			ends = append(ends, p+size)
		}
	}
	return ends
}

func isNumber(text string, digits, base int, r rune) bool {
	if len(text) < digits {
		return false
	}
	n, err := strconv.ParseUint(text[:digits], base, 32)
	return err == nil && rune(n) == r
}

// surrogates are the two numbers that JSON writes a rare character as.
func surrogates(r rune) (high, low rune) {
	if r <= 0xffff {
		return 0, 0
	}
	return 0xd800 + (r-0x10000)>>10, 0xdc00 + (r-0x10000)&0x3ff
}

// entity returns how long the text is that stands for r in HTML, and that text begins
// with.
func entity(text string, r rune) int {
	end := strings.IndexByte(text[:min(len(text), len("&#1114111;"))], ';')
	if end < 0 {
		return 0
	}
	name := strings.ToLower(text[1:end])
	is := map[string]rune{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\''}[name] == r && r != 0
	if digits, numeric := strings.CutPrefix(name, "#"); numeric {
		base := 10
		if hex, isHex := strings.CutPrefix(digits, "x"); isHex {
			digits, base = hex, 16
		}
		n, err := strconv.ParseUint(digits, base, 32)
		is = err == nil && rune(n) == r
	}
	if !is {
		return 0
	}
	return end + 1
}
