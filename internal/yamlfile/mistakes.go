package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"

	"github.com/limitctl/limitctl/internal/texts"
)

// Mistake is one thing that is wrong in a file, and where. Line and Column count
// from 1, in characters.
type Mistake struct {
	Path   string `json:"path"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"text"`
}

// String returns the mistake on one line: "limitctl.yaml:3:7: unknown field".
func (m *Mistake) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", m.Path, m.Line, m.Column, m.Text)
}

// Format writes a line for each mistake, up to twenty.
func Format(mistakes []Mistake) string {
	const most = 20
	var lines []string
	for i := range mistakes[:min(most, len(mistakes))] {
		lines = append(lines, texts.Escape(mistakes[i].String()))
	}
	if more := len(mistakes) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// Bounds of the mistakes: how many of a file are recorded, and how many characters each has, since it can contain a
// name or a value of the file.
const (
	maxMistakes = 1000
	maxText     = 500
)

// Mistakes returns the mistakes in the order of their file, without what was to be hidden.
func (r *Reader) Mistakes() []Mistake {
	slices.SortStableFunc(r.mistakes, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for i := range r.mistakes {
		m := &r.mistakes[i]
		m.Text = cut(r.secrets.Text(m.Text), maxText)
	}
	return r.mistakes
}

func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "…"
}

// mistake notes a mistake at a token, about the value at a path.
func (r *Reader) mistake(path string, at *token.Token, format string, args ...any) {
	r.bad[path] = true
	if at == nil {
		r.at(1, 1, format, args...)
		return
	}
	r.at(at.Position.Line, at.Position.Column, format, args...)
}

// at notes a mistake at a place, which it moves into the file: the parser's tokens can be just past an end.
func (r *Reader) at(line, column int, format string, args ...any) {
	line = min(max(line, 1), len(r.lines))
	if line == len(r.lines) && line > 1 && r.lines[line-1] == "" {
		line, column = line-1, 1<<20 // the end of the last line does not begin another one
	}
	column = min(max(column, 1), utf8.RuneCountInString(r.lines[line-1])+1)
	// The text is cut again when secrets are removed.
	m := Mistake{Path: r.path, Line: line, Column: column, Text: cut(fmt.Sprintf(format, args...), 4*maxText)}
	if len(r.noted) < maxMistakes && !r.noted[m] { // the value of several aliases is read several times
		r.noted[m] = true
		r.mistakes = append(r.mistakes, m)
	}
}

// quote returns the name of an entry for a mistake. Nothing says where passwords are in a file with mistakes, so a
// name that can be one is not repeated: what is within contexts or looks like a URL.
func quote(path, name string) string {
	if path == "contexts" || strings.HasPrefix(path, "contexts.") || path == "" && !plainName().MatchString(name) ||
		strings.ContainsAny(name, "@/") {
		return masked
	}
	return strconv.Quote(name)
}

const masked = "(masked)"

var plainName = texts.Regexp(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)
