// Package yamlfile reads YAML files strictly: it finds every mistake of a file at once, with its place, remembers
// where values were written, and takes bounded time and memory for any file.
package yamlfile

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/limitctl/limitctl/internal/redact"
)

// Reader reads values from a file's YAML. It notes a mistake and leaves a gap, so that the caller goes on and finds
// the others.
type Reader struct {
	path     string
	lines    []string
	secrets  *redact.Secrets // that no mistake may show
	mistakes []Mistake
	noted    map[Mistake]bool
	// aliases has the node of each alias.
	aliases map[*ast.AliasNode]ast.Node
	// entries counts the entries that were read, each as often as it was.
	entries int
	// places are the tokens of the values read, by their paths.
	places map[string]*token.Token
	// bad are the paths that already have a mistake.
	bad map[string]bool
}

// Value is a value of a map, or of a list.
type Value struct {
	// Path is the place of the value: "policies.login.limits[0].limit". Name is its name in a map, otherwise "".
	Path, Name string
	key        *token.Token // the place of a missing value
	node       ast.Node     // nil if it already has a mistake
}

// Mistake notes a mistake in a value, at its place.
func (r *Reader) Mistake(v Value, format string, args ...any) {
	r.mistake(v.Path, r.point(v), format, args...)
}

// MistakeAtKey is [Reader.Mistake] at the place of the value's name.
func (r *Reader) MistakeAtKey(v Value, format string, args ...any) {
	r.mistake(v.Path, v.key, format, args...)
}

// MistakeAt notes a mistake at a path, at the place of its value, or else of the nearest value that contains the
// path. It notes nothing if there is already a mistake.
func (r *Reader) MistakeAt(path, format string, args ...any) {
	if !r.HasMistake(path) {
		r.mistake(path, r.token(path), format, args...)
	}
}

// Spoil marks a value with mistakes in its parts, so that no other mistakes follow from the rest.
func (r *Reader) Spoil(v Value) { r.bad[v.Path] = true }

// HasMistake reports whether there is a mistake at a path or above it.
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

// HasMistakeWithin reports whether there is a mistake at a path, above it or below it.
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

// Line returns the line of a value.
func (r *Reader) Line(v Value) int {
	if at := r.point(v); at != nil {
		return at.Position.Line
	}
	return 1
}

// Hide removes secrets from the texts of all mistakes.
func (r *Reader) Hide(secrets ...string) { r.secrets.Add(secrets...) }

// Lines returns the line of each value that was read, by path.
func (r *Reader) Lines() map[string]int {
	lines := make(map[string]int, len(r.places))
	for path, at := range r.places {
		lines[path] = at.Position.Line
	}
	return lines
}

// resolve follows aliases; it returns nil for a mistake that is already noted.
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

// token returns the token of the value at a path, or of what contains it.
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

// point returns the token that marks a value.
func (r *Reader) point(v Value) *token.Token {
	if v.node == nil || v.node.Type() == ast.NullType {
		return v.key // an absent value has no place
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
