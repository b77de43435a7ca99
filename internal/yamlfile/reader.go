// Package yamlfile reads YAML files strictly: it finds every mistake of a file in one go,
// says where each is, remembers where values were written, and takes bounded time and
// memory, for any file.
package yamlfile

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/limitctl/limitctl/internal/redact"
)

// Reader reads values from a file's YAML. A mistake is noted and leaves a gap; whoever
// reads goes on, to find the others.
type Reader struct {
	path string

	lines    []string
	mask     func(lines []string) []string
	masked   []string        // the lines, once they are to be shown
	secrets  *redact.Secrets // what no mistake may show
	mistakes []Mistake
	noted    map[Mistake]bool
	// aliases are what each alias stands for.
	aliases map[*ast.AliasNode]ast.Node
	// entries counts those read, each as often as it is.
	entries int
	// places are the tokens of the values read, by their paths.
	places map[string]*token.Token
	// bad are the paths where there is a mistake already.
	bad map[string]bool
}

// Value is a value of a map, or of a list.
type Value struct {
	// Path says where the value is: "policies.login.limits[0].limit". Name is its name
	// in a map, else "".
	Path, Name string
	key        *token.Token // where to point when there is no value
	node       ast.Node     // nil if it has a mistake already
}

// Mistake notes what is wrong with a value, and points at it.
func (r *Reader) Mistake(v Value, format string, args ...any) {
	r.mistake(v.Path, r.point(v), format, args...)
}

// MistakeAtKey is [Reader.Mistake] that points at the value's name.
func (r *Reader) MistakeAtKey(v Value, format string, args ...any) {
	r.mistake(v.Path, v.key, format, args...)
}

// MistakeAt notes what is wrong at a path, and points at the value there, or else at the
// nearest value that holds the path. It notes nothing where there is a mistake already.
func (r *Reader) MistakeAt(path, format string, args ...any) {
	if !r.HasMistake(path) {
		r.mistake(path, r.token(path), format, args...)
	}
}

// Spoil marks a value whose parts have mistakes, so that nothing follows from what is left.
func (r *Reader) Spoil(v Value) { r.bad[v.Path] = true }

// HasMistake reports whether there is a mistake at a path or in what holds it.
func (r *Reader) HasMistake(path string) bool {
	for {
		if r.bad[path] {
			return true
		}
		end := strings.LastIndexAny(path, ".[")
		if end < 0 {
			return false
		}
		path = path[:end]
	}
}

// HasMistakeWithin reports whether there is a mistake at a path, in what holds it or in what it
// holds.
func (r *Reader) HasMistakeWithin(path string) bool {
	if r.HasMistake(path) {
		return true
	}
	for bad := range r.bad {
		if rest, within := strings.CutPrefix(bad, path); within && strings.IndexAny(rest, ".[") == 0 {
			return true
		}
	}
	return false
}

// Line returns the line that a value is in.
func (r *Reader) Line(v Value) int {
	if at := r.point(v); at != nil {
		return at.Position.Line
	}
	return 1
}

// Hide keeps secrets out of the texts of all mistakes.
func (r *Reader) Hide(secrets ...string) { r.secrets.Add(secrets...) }

// Lines returns the line of each value that was read, by the values' paths.
func (r *Reader) Lines() map[string]int {
	lines := make(map[string]int, len(r.places))
	for path, at := range r.places {
		lines[path] = at.Position.Line
	}
	return lines
}

// resolve returns what a node stands for; nil if that is a mistake noted before.
func (r *Reader) resolve(n ast.Node) ast.Node {
	for {
		switch node := n.(type) {
		case *ast.AnchorNode:
			n = node.Value
		case *ast.TagNode:
			n = node.Value
		case *ast.AliasNode:
			n = r.aliases[node]
			if n == nil {
				return nil
			}
		default:
			return n
		}
	}
}

// mistake notes one at a token, about the value at a path.
func (r *Reader) mistake(path string, at *token.Token, format string, args ...any) {
	r.bad[path] = true
	if at == nil {
		r.at(1, 1, format, args...)
		return
	}
	r.at(at.Position.Line, at.Position.Column, format, args...)
}

// at notes a mistake at a place, which it moves into the file: the parser's tokens
// can lie just past an end.
func (r *Reader) at(line, column int, format string, args ...any) {
	line = min(max(line, 1), len(r.lines))
	if line == len(r.lines) && line > 1 && r.lines[line-1] == "" {
		line, column = line-1, 1<<20 // what ends the last line begins no other
	}
	column = min(max(column, 1), utf8.RuneCountInString(r.lines[line-1])+1)
	m := Mistake{Path: r.path, Line: line, Column: column, Text: fmt.Sprintf(format, args...)}
	if r.noted[m] || len(r.mistakes) == maxMistakes {
		return // what several aliases stand for is read several times
	}
	r.noted[m] = true
	if utf8.RuneCountInString(m.Text) > 4*maxText { // it is cut to be told once it holds no secret
		m.Text = string([]rune(m.Text)[:4*maxText])
	}
	r.mistakes = append(r.mistakes, m)
}

// token returns where the value at a path is, or else what holds it.
func (r *Reader) token(path string) *token.Token {
	for {
		if at := r.places[path]; at != nil {
			return at
		}
		end := strings.LastIndexAny(path, ".[")
		if end < 0 {
			return nil
		}
		path = path[:end]
	}
}

// point returns the token to point at for a value.
func (r *Reader) point(v Value) *token.Token {
	if v.node == nil || v.node.Type() == ast.NullType {
		return v.key // an absent value is nowhere
	}
	if at := firstToken(v.node); at != nil {
		return at
	}
	return v.key
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
