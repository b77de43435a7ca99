package api

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// scanner reads JSON in the form of a body: an object of texts, whole numbers, booleans, lists of texts and objects
// of texts. It is stricter than encoding/json, so that nothing in a body is overlooked: it refuses duplicate names,
// names in another case, null, invalid UTF-8 and half a surrogate pair. Its errors are [store.ErrInvalid].
type scanner struct {
	text string
	at   int
	// copies: texts are copied, so that they do not keep the whole body in memory.
	copies bool
}

// shares is the longest body whose parts may keep it in memory. A store can remember a key for longer than the
// request takes.
const shares = 1 << 10

func scan(text string) scanner { return scanner{text: text, copies: len(text) > shares} }

// space skips white space.
func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// next returns the next byte that is not white space, or zero at the end.
func (s *scanner) next() byte {
	s.space()
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

// skip skips the next byte if it is c, after white space.
func (s *scanner) skip(c byte) bool {
	if s.next() != c || s.at == len(s.text) {
		return false
	}
	s.at++
	return true
}

// wrong returns an error about this place, where something else was expected.
func (s *scanner) wrong(expected string) error {
	if s.at >= len(s.text) {
		return store.Invalidf("the body ends too early: %s was expected", expected)
	}
	r, size := utf8.DecodeRuneInString(s.text[s.at:])
	if r == utf8.RuneError && size == 1 {
		return store.Invalidf("the body is not valid UTF-8 at byte %d", s.at+1)
	}
	return store.Invalidf("the body is not valid JSON at byte %d: %q, where %s was expected", s.at+1, r, expected)
}

// kind returns the kind of the next value, in the words of an error.
func (s *scanner) kind() string {
	switch c := s.next(); {
	case c == '"':
		return "a text"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case c == 't' || c == 'f':
		return "a boolean"
	case c == 'n':
		return "null"
	case c == '-' || '0' <= c && c <= '9':
		return "a number"
	}
	return ""
}

// mistaken returns an error about a field whose value has the wrong kind.
func (s *scanner) mistaken(field, must string) error {
	kind := s.kind()
	if kind == "" {
		return s.wrong("a value")
	}
	return store.Invalidf("%s is %s; it must be %s", field, kind, must)
}

// open reads the beginning of an object, and reports whether a name follows.
func (s *scanner) open() (more bool, err error) {
	if !s.skip('{') {
		return false, s.wrong("an object, such as {\"key\":\"user:42\",\"limits\":[\"10/1m\"]},")
	}
	return !s.skip('}'), nil
}

// name reads a name in an object, and the colon.
func (s *scanner) name() (string, error) {
	if s.next() != '"' {
		return "", s.wrong("a name in quotes")
	}
	name, err := s.string()
	if err == nil && !s.skip(':') {
		err = s.wrong("a colon")
	}
	return name, err
}

// more reads what follows a value in an object, and reports whether another name follows.
func (s *scanner) more() (more bool, err error) {
	if s.skip('}') {
		return false, nil
	}
	if !s.skip(',') {
		return false, s.wrong("a comma or the end of the object")
	}
	return true, nil
}

// each reads an object, and calls read at each of its names.
func (s *scanner) each(read func() error) error {
	more, err := s.open()
	for more && err == nil {
		if err = read(); err == nil {
			more, err = s.more()
		}
	}
	return err
}

// textOf reads the text of a field. kind and name are for errors.
func (s *scanner) textOf(kind, name string) (string, error) {
	if s.next() != '"' {
		return "", s.mistaken(kind+name, "a text")
	}
	return s.string()
}

// textsOf reads a list of texts, and appends them.
func (s *scanner) textsOf(field string, to []string, most int) ([]string, error) {
	if !s.skip('[') {
		return to, s.mistaken(field, "a list of texts")
	}
	if s.skip(']') {
		return to, nil
	}
	for {
		if s.next() != '"' {
			return to, s.mistaken("an entry of "+field, "a text")
		}
		text, err := s.string()
		if err != nil {
			return to, err
		}
		if len(to) == most {
			return to, store.Invalidf("%s has more than %d entries; decide fewer together", field, most)
		}
		to = append(to, text)
		if s.skip(']') {
			return to, nil
		}
		if !s.skip(',') {
			return to, s.wrong("a comma or the end of the list")
		}
	}
}

// booleanOf reads true or false.
func (s *scanner) booleanOf(field string) (bool, error) {
	s.space()
	for _, word := range []string{"true", "false"} {
		if strings.HasPrefix(s.text[s.at:], word) {
			s.at += len(word)
			return word == "true", nil
		}
	}
	return false, s.mistaken(field, "true or false")
}

// numberOf reads a whole number.
func (s *scanner) numberOf(field string) (int64, error) {
	s.space()
	from := s.at
	for s.at < len(s.text) && strings.IndexByte("+-.0123456789eE", s.text[s.at]) >= 0 {
		s.at++
	}
	written := s.text[from:s.at]
	n, ok := wholeNumber(written)
	switch {
	case ok:
		return n, nil
	case written == "":
		return 0, s.mistaken(field, "a whole number without quotes, such as 1")
	case strings.Trim(strings.TrimPrefix(written, "-"), "0123456789") == "" && written != "-" && !leadingZero(written):
		return 0, store.Invalidf("%s %s is out of range", field, output.Shorten(written, longestNumber))
	}
	return 0, store.Invalidf("%s %s is not a whole number; write it like 1", field, output.Shorten(written, longestNumber))
}

// longestNumber is the most digits of a number in an error.
const longestNumber = 40

func leadingZero(written string) bool {
	digits := strings.TrimPrefix(written, "-")
	return len(digits) > 1 && digits[0] == '0'
}

// wholeNumber reads a number of JSON; ok is false if it is not whole, or too large.
func wholeNumber(written string) (n int64, ok bool) {
	if leadingZero(written) || strings.HasPrefix(written, "+") {
		return 0, false
	}
	if len(written) > 0 && len(written) < 10 && written[0] != '-' {
		for i := range len(written) {
			digit := written[i] - '0'
			if digit > 9 {
				return 0, false
			}
			n = n*10 + int64(digit)
		}
		return n, true
	}
	n, err := strconv.ParseInt(written, 10, 64)
	return n, err == nil
}

// string reads a text; the next byte is its quotation mark.
func (s *scanner) string() (string, error) {
	from := s.at + 1
	for s.at = from; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			text := s.text[from:s.at]
			s.at++
			if s.copies {
				text = strings.Clone(text)
			}
			return text, nil
		case c == '\\' || c >= utf8.RuneSelf:
			return s.slowString(from)
		case c < ' ':
			return "", s.wrong("the rest of a text (control characters are written \\n, \\u0000)")
		}
	}
	return "", s.wrong("the end of a text")
}

// slowString reads a text, begun at from, that has escapes or is not ASCII.
func (s *scanner) slowString(from int) (string, error) {
	b := []byte(s.text[from:s.at])
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return string(b), nil
		case c == '\\':
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			b = utf8.AppendRune(b, r)
		case c < ' ':
			return "", s.wrong("the rest of a text (control characters are written \\n, \\u0000)")
		default:
			r, size := utf8.DecodeRuneInString(s.text[s.at:])
			if r == utf8.RuneError && size == 1 {
				return "", s.wrong("a character")
			}
			b = append(b, s.text[s.at:s.at+size]...)
			s.at += size
		}
	}
	return "", s.wrong("the end of a text")
}

// escaped are the characters of the escapes with one letter.
var escaped = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape reads an escape in a text; the next byte is its backslash.
func (s *scanner) escape() (rune, error) {
	s.at++
	if s.at == len(s.text) {
		return 0, s.wrong("the rest of an escape")
	}
	if r, known := escaped[s.text[s.at]]; known {
		s.at++
		return r, nil
	}
	first, ok := s.unit(s.at - 1)
	if !ok {
		return 0, s.wrong("an escape such as \\n or \\u00e9")
	}
	begin := s.at
	s.at += len(`u00e9`)
	if !utf16.IsSurrogate(first) {
		return first, nil
	}
	second, ok := s.unit(s.at)
	r := utf16.DecodeRune(first, second)
	if !ok || r == utf8.RuneError {
		s.at = begin
		return 0, store.Invalidf("the body has half a surrogate pair at byte %d; write both halves, or the character itself", begin)
	}
	s.at += len(`\u00e9`)
	return r, nil
}

// unit reads the four digits of the escape \uXXXX at that index.
func (s *scanner) unit(at int) (rune, bool) {
	const length = len(`\u00e9`)
	if len(s.text)-at < length || s.text[at] != '\\' || s.text[at+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s.text[at+2:at+length], 16, 16)
	return rune(n), err == nil
}
