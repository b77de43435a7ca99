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

// bounds has the counts up to a place in a text.
type bounds struct {
	reader                          *Reader
	line                            int // from 1
	nesting                         int // of brackets
	blank, tags, anchors, documents int
	marks                           int
	// siblings are the counts of lines by indentation, since the last line with a smaller one.
	siblings                            [maxIndent + 2]int
	indicators                          int // of the line: "-", "?" and ":" by themselves
	isComment, beginsWord, isIndentDone bool
}

// checkText checks the lines for what no YAML text may contain, and for what would take too long.
func (r *Reader) checkText() bool {
	b := bounds{reader: r}
	for i, line := range r.lines {
		b.line = i + 1
		if !b.checkLine(line) {
			return false
		}
	}
	return true
}

// failed notes a mistake in the current line.
func (b *bounds) failed(column int, format string, args ...any) bool {
	b.reader.at(b.line, column, format, args...)
	return false
}

func (b *bounds) checkLine(line string) bool {
	indent := min(len(line)-len(strings.TrimLeft(line, " \t")), maxIndent)
	if indent == len(line) {
		b.blank++
	} else {
		b.blank = 0
		b.siblings[indent]++
		clear(b.siblings[indent+1:])
	}
	if strings.HasPrefix(line, "---") {
		b.documents++
	}
	switch {
	case b.line > maxLines:
		return b.failed(1, "the file has more than %d lines", maxLines)
	case len(line) > maxLine:
		return b.failed(1, "the line is longer than %d KiB; split it", maxLine>>10)
	case b.siblings[indent] > maxSiblings:
		return b.failed(indent+1, "this list or map has more than %d lines", maxSiblings)
	case b.blank > maxBlank && b.line < len(b.reader.lines):
		return b.failed(1, "more than %d blank lines in a row", maxBlank)
	case b.documents > maxDocuments:
		return b.failed(1, "the file has more than %d documents; only one is allowed", maxDocuments)
	}
	b.indicators, b.isComment, b.beginsWord, b.isIndentDone = 0, false, true, false
	column := 0
	for rest := line; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
		column++
		switch {
		case r == utf8.RuneError && size == 1:
			return b.failed(column, "this byte is not UTF-8; save the file as UTF-8")
		case unicode.IsControl(r) && r != '\t' && r != '\u0085' || r == '\ufeff':
			return b.failed(column, "the invisible character %U is not allowed here; remove it", r)
		}
		if !b.checkRune(r, rest, column) {
			return false
		}
	}
	return true
}

// checkRune counts what takes the parser's time. rest is the text behind the rune.
func (b *bounds) checkRune(r rune, rest string, column int) bool {
	endsWord := rest == "" || rest[0] == ' ' || rest[0] == '\t'
	if strings.ContainsRune(`[]{},:"'`, r) {
		b.marks++
	}
	switch {
	case r == '[' || r == '{':
		b.nesting++
	case r == ']' || r == '}':
		b.nesting = max(0, b.nesting-1)
	case b.isComment || !b.beginsWord:
	case r == '#':
		b.isComment = true
	case r == '!':
		b.tags++
	case r == '&' || r == '*':
		b.anchors++
	case endsWord && (r == '-' || r == '?' || r == ':'):
		b.indicators++
	}
	if r != ' ' && r != '\t' {
		b.isIndentDone = true
	}
	b.beginsWord = r == ' ' || r == '\t' || r == '[' || r == '{' || r == ','
	switch {
	case b.nesting > maxNesting:
		return b.failed(column, "brackets are nested more than %d deep here", maxNesting)
	case b.marks > maxMarks:
		return b.failed(column, "the file has more than %d brackets, commas, colons and quotes", maxMarks)
	case b.indicators > maxNesting:
		return b.failed(column, "lists and maps are nested more than %d deep here", maxNesting)
	case b.tags > maxTags:
		return b.failed(column, "the file has more than %d tags; tags are not used here, remove them", maxTags)
	case b.anchors > maxNamed:
		return b.failed(column, "the file has more than %d anchors and aliases", maxNamed)
	case !b.isIndentDone && column > maxIndent:
		return b.failed(column, "the line is indented by more than %d characters", maxIndent)
	}
	return true
}
