// Package yamlfile reads YAML files strictly: it finds every mistake of a file at once, with its place, remembers where
// values were written, and takes bounded time and memory for any file.
package yamlfile

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/internal/texts"
)

// Reader reads values from a file's YAML. It notes a mistake and leaves a gap, so that the caller goes on and finds the
// others.
type Reader struct {
	path     string
	lines    []string
	secrets  *redact.Secrets // that no mistake may show
	hideURLs bool
	mistakes []Mistake
	noted    map[Mistake]bool
	aliases  map[*ast.AliasNode]ast.Node
	// entries counts the entries that were read, each as often as it was.
	entries int
	// places are those of the values read, by their paths. bad are the paths that already have a mistake, and
	// above the paths of what contains one.
	places     map[string]place
	bad, above map[string]bool
}

// Value is a value of a map, or of a list.
type Value struct {
	// Path is the place of the value: "policies.login.limits[0].limit". Name is its name in a map, otherwise "".
	Path, Name string
	key        *token.Token // the place of a missing value
	node       ast.Node     // nil if it already has a mistake
}

// Mistake is one thing that is wrong in a file, and where. Line and Column count from 1, in characters.
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

// Bounds of the mistakes: how many of a file are recorded, and how many bytes each has, since it can contain a name or
// a value of the file.
const (
	maxMistakes = 1000
	maxText     = 1000
)

// Mistakes returns the mistakes in the order of their file, without what was to be hidden.
func (r *Reader) Mistakes() []Mistake {
	slices.SortStableFunc(r.mistakes, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for i := range r.mistakes {
		text := &r.mistakes[i].Text
		if *text = r.secrets.Text(*text); r.hideURLs {
			*text = url().ReplaceAllString(*text, masked)
		}
	}
	return r.mistakes
}

// Hide removes secrets from the texts of all mistakes.
func (r *Reader) Hide(secrets ...string) { r.secrets.Add(secrets...) }

// HideURLs removes all URLs from the texts of all mistakes: in a file with stores that nobody reads, each can have a
// password.
func (r *Reader) HideURLs() { r.hideURLs = true }

var url = texts.Regexp(`(?s)[a-z]+://.*`)

// at notes a mistake at a place, which it moves into the file: the parser's tokens can be just past an end.
func (r *Reader) at(line, column int, format string, args ...any) {
	line = min(max(line, 1), len(r.lines))
	if line == len(r.lines) && line > 1 && r.lines[line-1] == "" {
		line, column = line-1, 1<<20 // the end of the last line does not begin another one
	}
	column = min(max(column, 1), utf8.RuneCountInString(r.lines[line-1])+1)
	text := fmt.Sprintf(format, args...)
	if len(text) > maxText {
		text = texts.Prefix(text, maxText) + "…"
	}
	m := Mistake{Path: r.path, Line: line, Column: column, Text: text}
	if len(r.noted) < maxMistakes && !r.noted[m] { // the value of several aliases is read several times
		r.noted[m] = true
		r.mistakes = append(r.mistakes, m)
	}
}

// mistake notes a mistake at a token, about the value at a path.
func (r *Reader) mistake(path string, at *token.Token, format string, args ...any) {
	r.spoil(path)
	if at == nil {
		at = &token.Token{Position: &token.Position{}}
	}
	r.at(at.Position.Line, at.Position.Column, format, args...)
}

// Mistake notes a mistake in a value, at its place.
func (r *Reader) Mistake(v Value, format string, args ...any) {
	r.mistake(v.Path, r.point(v), format, args...)
}

// MistakeAtKey is [Reader.Mistake] at the place of the value's name.
func (r *Reader) MistakeAtKey(v Value, format string, args ...any) {
	r.mistake(v.Path, v.key, format, args...)
}

// MistakeAt notes a mistake at a path, at the place of its value, or else of the nearest value that contains the path.
// It notes nothing if there is already a mistake.
func (r *Reader) MistakeAt(path, format string, args ...any) {
	if r.HasMistake(path) {
		return
	}
	var at *token.Token
	for container := range containers(path) {
		at = cmp.Or(at, r.places[container].at)
	}
	r.mistake(path, at, format, args...)
}

// containers yields a path, and the paths of what contains it.
func containers(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for end := len(path); end >= 0 && yield(path[:end]); {
			end = strings.LastIndexAny(path[:end], ".[")
		}
	}
}

// Spoil marks a value with mistakes in its parts, so that no other mistakes follow from the rest.
func (r *Reader) Spoil(v Value) { r.spoil(v.Path) }

func (r *Reader) spoil(path string) {
	r.bad[path] = true
	for container := range containers(path) {
		r.above[container] = true
	}
}

// HasMistake reports whether there is a mistake at a path or above it.
func (r *Reader) HasMistake(path string) bool {
	for container := range containers(path) {
		if r.bad[container] {
			return true
		}
	}
	return false
}

// HasMistakeWithin reports whether there is a mistake at a path, above it or below it.
func (r *Reader) HasMistakeWithin(path string) bool { return r.above[path] || r.HasMistake(path) }

// At returns a remark about a value, which is no mistake.
func (r *Reader) At(v Value, format string, args ...any) Mistake {
	at := r.point(v).Position
	return Mistake{r.path, at.Line, at.Column, fmt.Sprintf(format, args...)}
}

// Place is where a value is, and its text as it is written: "[]" or "{}" of an empty list or map, and "" of others.
type Place struct {
	Line int
	Text string
}

// place is the token of a value, and its text.
type place struct {
	at   *token.Token
	text string
}

// Places returns the place of each value that was read, by path.
func (r *Reader) Places() map[string]Place {
	places := make(map[string]Place, len(r.places))
	for path, p := range r.places {
		places[path] = Place{p.at.Position.Line, p.text}
	}
	return places
}

// keep notes the place of a value.
func (r *Reader) keep(v Value, at *token.Token) {
	node := r.resolve(v.node)
	text, _ := scalar(node)
	switch n := node.(type) {
	case *ast.MappingNode:
		text = map[bool]string{true: "{}"}[len(n.Values) == 0]
	case *ast.SequenceNode:
		text = map[bool]string{true: "[]"}[len(n.Values) == 0]
	}
	r.places[v.Path] = place{at, text}
}

// point returns the token that marks a value. An absent value has no place of its own.
func (r *Reader) point(v Value) *token.Token {
	if v.node == nil || v.node.Type() == ast.NullType {
		return v.key
	}
	return cmp.Or(firstToken(v.node), v.key)
}

// firstToken returns the beginning of a node. A block's own token is its first colon.
func firstToken(n ast.Node) *token.Token {
	switch n := n.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return firstToken(n.Values[0])
		}
	case *ast.MappingValueNode:
		return firstToken(n.Key)
	}
	return n.GetToken()
}

// quote returns the name of an entry for a mistake. Nothing says where passwords are in a file with mistakes, so a name
// that can be one is not repeated: what is within contexts or looks like a URL.
func quote(path, name string) string {
	if path == "contexts" || strings.HasPrefix(path, "contexts.") || path == "" && !plainName().MatchString(name) ||
		strings.ContainsAny(name, "@/") {
		return masked
	}
	return strconv.Quote(name)
}

const masked = "(masked)"

var plainName = texts.Regexp(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// Field is a field that a reader accepts in a map.
type Field struct {
	Name string
	// About describes the field in a sentence.
	About    string
	Required bool
}

// Fields reads a map with these fields, and notes unknown or missing ones. what names the map in a mistake, such as
// "the limit".
func (r *Reader) Fields(v Value, what string, known []Field) (fields map[string]Value, ok bool) {
	var names []string
	for i := range known {
		names = append(names, known[i].Name)
	}
	entries, ok := r.Map(v, what, "a map of "+strings.Join(names, ", "))
	if !ok {
		return nil, false
	}
	fields = map[string]Value{}
	for _, e := range entries {
		if slices.Contains(names, e.Name) {
			fields[e.Name] = e
			continue
		}
		meant, said := Nearest(e.Name, names), strconv.Quote(e.Name)
		remedy := "did you mean " + meant + "?"
		if meant == "" { // it may not be a name at all
			said, remedy = quote(v.Path, e.Name), "it has "+strings.Join(names, ", ")
		}
		if option, value, is := strings.Cut(e.Name, "="); is && slices.Contains(names, option) {
			remedy = fmt.Sprintf("inside {} a comma ends the limit; quote it, or write %s: %s", option, value)
		}
		r.mistake(v.Path+".?", e.key, "%s has no field %s; %s", what, said, remedy)
		if _, there := fields[meant]; !there { // otherwise that one is read
			r.spoil(join(v.Path, meant))
		}
	}
	for _, f := range known {
		if _, found := fields[f.Name]; f.Required && !found && !r.bad[join(v.Path, f.Name)] {
			at := v.key
			if v.Name == "" {
				at = r.point(v)
			}
			about := strings.ToLower(f.About[:1]) + strings.TrimSuffix(f.About[1:], ".")
			r.mistake(join(v.Path, f.Name), at, "%s has no %s: %s", what, f.Name, about)
		}
	}
	return fields, true
}

// Nearest returns the one of the names that differs from name in the fewest letters, if that is one letter or at most a
// third of them; otherwise "".
func Nearest(name string, names []string) string {
	return texts.Nearest(name, names, max(1, (len(name)+1)/3))
}
