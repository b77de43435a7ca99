package shell

import (
	"strconv"
	"strings"
)

// Line is a command line of bash, which may be incomplete.
type Line struct {
	// Words are the words after removal of quotes; the last one may be incomplete. Nothing in them is expanded:
	// $(…), backquotes and variables are text.
	Words []string
	// ToFile: the last word is a file for a redirection.
	ToFile bool
}

// ReadLine splits a line like bash, and runs nothing.
func ReadLine(line string) Line {
	var l Line
	target := false // of < or >
	for {
		line = strings.TrimLeft(line, " \t\n")
		n := wordEnd(line)
		raw, rest := line[:n], line[n:]
		if rest != "" && (rest[0] == '<' || rest[0] == '>') {
			if raw != "" && strings.Trim(raw, "0123456789") != "" && !target {
				l.Words = append(l.Words, unquote(raw))
			}
			line, target = strings.TrimLeft(rest, "<>&|"), true
			continue
		}
		if rest == "" {
			l.Words, l.ToFile = append(l.Words, unquote(raw)), target
			return l
		}
		if !target {
			l.Words = append(l.Words, unquote(raw))
		}
		line, target = rest, false
	}
}

// wordEnd returns the end of the first word of a line: at a separator outside of quotes and substitutions.
func wordEnd(line string) int {
	for i := 0; i < len(line); {
		switch line[i] {
		case ' ', '\t', '\n':
			return i
		case '<', '>':
			if !strings.HasPrefix(line[i+1:], "(") {
				return i
			}
			i++
		}
		i += itemEnd(line[i:])
	}
	return len(line)
}

// itemEnd returns the length of the first item of a text: a quoted part, a substitution, or one byte.
func itemEnd(text string) int {
	n := 1
	switch {
	case text[0] == '\\':
		n = min(2, len(text))
	case text[0] == '\'':
		n, _ = through(text, 1, '\'', false, false)
	case strings.HasPrefix(text, "$'"):
		n, _ = through(text, 2, '\'', true, false)
	case text[0] == '"':
		n, _ = through(text, 1, '"', true, true)
	case text[0] == '`':
		n, _ = through(text, 1, '`', true, false)
	case text[0] == '(':
		n, _ = through(text, 1, ')', true, true)
	case strings.HasPrefix(text, "$("):
		n, _ = through(text, 2, ')', true, true)
	case strings.HasPrefix(text, "${"):
		n, _ = through(text, 2, '}', true, true)
	}
	return n
}

// through returns the index after the closing byte, searching from i on; otherwise the length of text.
func through(text string, i int, closing byte, escapes, nests bool) (end int, closed bool) {
	for i < len(text) {
		switch {
		case text[i] == closing:
			return i + 1, true
		case escapes && text[i] == '\\':
			i = min(i+2, len(text))
		case nests && closing == '"':
			i += substitutionEnd(text[i:])
		case nests:
			i += itemEnd(text[i:])
		default:
			i++
		}
	}
	return len(text), false
}

// substitutionEnd is itemEnd within double quotes, where only substitutions are longer than one byte.
func substitutionEnd(text string) int {
	if text[0] == '`' || strings.HasPrefix(text, "$(") || strings.HasPrefix(text, "${") {
		return itemEnd(text)
	}
	return 1
}

// unquote returns the value of a word of bash without expansions. Quotes need not be closed yet.
func unquote(raw string) string {
	var b strings.Builder
	inside := func(from int, closing byte, escapes, nests bool) (text string, n int) {
		n, closed := through(raw, from, closing, escapes, nests)
		if closed {
			return raw[from : n-1], n
		}
		return raw[from:], n
	}
	for raw != "" {
		n := 1
		text := raw[:1]
		switch {
		case raw[0] == '\\':
			n = min(2, len(raw))
			text = strings.TrimPrefix(raw[1:n], "\n")
		case raw[0] == '\'':
			text, n = inside(1, '\'', false, false)
		case strings.HasPrefix(raw, "$'"):
			text, n = inside(2, '\'', true, false)
			text = unescape(text)
		case raw[0] == '"':
			text, n = inside(1, '"', true, true)
			text = unquoteDouble(text)
		case raw[0] == '$' || raw[0] == '`':
			n = itemEnd(raw)
			text = raw[:n]
		}
		b.WriteString(text)
		raw = raw[n:]
	}
	return b.String()
}

// unquoteDouble decodes the text in double quotes.
func unquoteDouble(text string) string {
	var b strings.Builder
	for text != "" {
		if text[0] == '\\' && len(text) > 1 && strings.IndexByte("$`\"\\\n", text[1]) >= 0 {
			b.WriteString(strings.TrimPrefix(text[1:2], "\n"))
			text = text[2:]
			continue
		}
		n := substitutionEnd(text)
		b.WriteString(text[:n])
		text = text[n:]
	}
	return b.String()
}

// unescape decodes the text of $'…'.
func unescape(text string) string {
	const letters, mean = `abefnrtvE\'"?`, "\a\b\x1b\f\n\r\t\v\x1b\\'\"?"
	var b strings.Builder
	for text != "" {
		if text[0] != '\\' || len(text) == 1 {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		letter, rest := text[1], text[2:]
		switch i := strings.IndexByte(letters, letter); {
		case i >= 0:
			b.WriteByte(mean[i])
		case '0' <= letter && letter <= '7':
			var code uint64
			code, rest = number(text[1:], 8, 3)
			b.WriteByte(byte(code))
		case letter == 'x' || letter == 'u' || letter == 'U':
			var code uint64
			code, rest = number(rest, 16, map[byte]int{'x': 2, 'u': 4, 'U': 8}[letter])
			if letter == 'x' {
				b.WriteByte(byte(code))
			} else {
				b.WriteRune(rune(code))
			}
		default:
			b.WriteString(text[:2])
		}
		text = rest
	}
	return b.String()
}

// number reads a number of at most most digits from the beginning of text.
func number(text string, base, most int) (n uint64, rest string) {
	for size := min(most, len(text)); size > 0; size-- {
		if n, err := strconv.ParseUint(text[:size], base, 64); err == nil {
			return n, text[size:]
		}
	}
	return 0, text
}
