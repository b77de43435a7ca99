package yamlfile

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds that no configuration comes near, so that none takes long to read. The parser's time is quadratic in the
// values of a map and in the nesting, and worse in blank lines of a text; aliases multiply their anchors.
const (
	// MaxSize is the most bytes of a file.
	MaxSize  = 1 << 20
	maxLines = 20_000
	maxLine  = 64 << 10
	// maxSiblings is the most lines of one list or map, and maxMarks the most characters that make lists and maps.
	maxSiblings = 10_000
	maxMarks    = 100_000
	maxIndent   = 500
	maxNesting  = 100
	// maxBlank is the most blank lines in a row.
	maxBlank = 100
	// maxTags is the most words that begin with "!". Each is a mistake anyway. maxNamed is the most that begin with
	// "&" or "*".
	maxTags  = 100
	maxNamed = 5_000
	// maxDocuments is the most lines that begin a document; a configuration is in the first.
	maxDocuments = 10
	maxEntries   = 100_000
)

// checkText checks the lines for what no YAML text may contain, and for what would take too long.
func (r *Reader) checkText() bool {
	var nesting, blank, tags, named, documents, marks int
	var siblings [maxIndent + 2]int // lines by indentation, since the last line with a smaller one
	for i, line := range r.lines {
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		if blank++; indent < len(line) {
			blank = 0
			siblings[min(indent, maxIndent)]++
			clear(siblings[min(indent, maxIndent)+1:])
		}
		if strings.HasPrefix(line, "---") {
			documents++
		}
		failed := func(column int, format string, args ...any) bool {
			r.at(i+1, column, format, args...)
			return false
		}
		for column, c := range []rune(line[:min(len(line), maxLine)]) {
			switch {
			case c == utf8.RuneError && !utf8.ValidString(line):
				return failed(column+1, "this byte is not UTF-8; save the file as UTF-8")
			case unicode.IsControl(c) && c != '\t' && c != '\u0085' || c == '\ufeff':
				return failed(column+1, "the invisible character %U is not allowed here; remove it", c)
			case c == '[' || c == '{':
				if nesting++; nesting > maxNesting {
					return failed(column+1, "brackets are nested more than %d deep here", maxNesting)
				}
			case c == ']' || c == '}':
				nesting = max(0, nesting-1)
			}
		}
		for _, mark := range `[]{},:"'` {
			marks += strings.Count(line, string(mark))
		}
		indicators := 0 // of levels on this line
		for word := range strings.FieldsFuncSeq(line, func(c rune) bool { return strings.ContainsRune(" \t[{,", c) }) {
			switch {
			case word[0] == '!':
				tags++
			case word[0] == '&' || word[0] == '*':
				named++
			case word == "-" || word == "?" || word == ":":
				indicators++
			}
		}
		switch {
		case i >= maxLines:
			return failed(1, "the file has more than %d lines", maxLines)
		case len(line) > maxLine:
			return failed(1, "the line is longer than %d KiB; split it", maxLine>>10)
		case indent > maxIndent:
			return failed(maxIndent+1, "the line is indented by more than %d characters", maxIndent)
		case siblings[indent] > maxSiblings:
			return failed(indent+1, "this list or map has more than %d lines", maxSiblings)
		case blank > maxBlank && i+1 < len(r.lines):
			return failed(1, "more than %d blank lines in a row", maxBlank)
		case documents > maxDocuments:
			return failed(1, "the file has more than %d documents; only one is allowed", maxDocuments)
		case marks > maxMarks:
			return failed(1, "the file has more than %d brackets, commas, colons and quotes", maxMarks)
		case indicators > maxNesting:
			return failed(1, "lists and maps are nested more than %d deep here", maxNesting)
		case tags > maxTags:
			return failed(1, "the file has more than %d tags; tags are not used here, remove them", maxTags)
		case named > maxNamed:
			return failed(1, "the file has more than %d anchors and aliases", maxNamed)
		}
	}
	return true
}
