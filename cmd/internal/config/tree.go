package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/limitctl/limitctl/internal/redact"
)

// tree is a file's YAML, from which values are read. A mistake is noted and leaves
// a gap; whoever reads goes on, to find the others.
type tree struct {
	path string
	// checkStore tells what is wrong with a store's URL, if anybody is to.
	checkStore func(url string) error

	lines    []string
	masked   []string        // the lines, once they are to be shown
	secrets  *redact.Secrets // of the stores' URLs that could be read
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

// place is a value of a mapping, or of a list.
type place struct {
	path string
	name string       // its name in a mapping
	key  *token.Token // where to point when there is no value
	node ast.Node     // nil if it has a mistake already
}

// resolve returns what a node stands for; nil if that is a mistake noted before.
func (t *tree) resolve(n ast.Node) ast.Node {
	for {
		switch node := n.(type) {
		case *ast.AnchorNode:
			n = node.Value
		case *ast.TagNode:
			n = node.Value
		case *ast.AliasNode:
			n = t.aliases[node]
			if n == nil {
				return nil
			}
		default:
			return n
		}
	}
}

// mistake notes one at a token, about the value at a path.
func (t *tree) mistake(path string, at *token.Token, format string, args ...any) {
	t.bad[path] = true
	if at == nil {
		t.at(1, 1, format, args...)
		return
	}
	t.at(at.Position.Line, at.Position.Column, format, args...)
}

// at notes a mistake at a place, which it moves into the file: the parser's tokens
// can lie just past an end.
func (t *tree) at(line, column int, format string, args ...any) {
	line = min(max(line, 1), len(t.lines))
	if line == len(t.lines) && line > 1 && t.lines[line-1] == "" {
		line, column = line-1, 1<<20 // what ends the last line begins no other
	}
	column = min(max(column, 1), utf8.RuneCountInString(t.lines[line-1])+1)
	m := Mistake{Path: t.path, Line: line, Column: column, Text: fmt.Sprintf(format, args...)}
	if t.noted[m] || len(t.mistakes) == maxMistakes {
		return // what several aliases stand for is read several times
	}
	t.noted[m] = true
	if utf8.RuneCountInString(m.Text) > 4*maxText { // it is cut to be told once it holds no secret
		m.Text = string([]rune(m.Text)[:4*maxText])
	}
	t.mistakes = append(t.mistakes, m)
}

// has reports whether there is a mistake at a path or in what holds it.
func (t *tree) has(path string) bool {
	for {
		if t.bad[path] {
			return true
		}
		end := strings.LastIndexAny(path, ".[")
		if end < 0 {
			return false
		}
		path = path[:end]
	}
}

// token returns where the value at a path is, or else what holds it.
func (t *tree) token(path string) *token.Token {
	for {
		if at := t.places[path]; at != nil {
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
func (t *tree) point(p place) *token.Token {
	if p.node == nil || p.node.Type() == ast.NullType {
		return p.key // an absent value is nowhere
	}
	if at := firstToken(p.node); at != nil {
		return at
	}
	return p.key
}

func (t *tree) wrongType(p place, what, want string) {
	t.mistake(p.path, t.point(p), "%s is %s; it must be %s", what, kind(t.resolve(p.node)), want)
}

// kind names the type of a node for people.
func kind(n ast.Node) string {
	switch n.Type() {
	case ast.MappingType, ast.MappingValueType:
		return "a map"
	case ast.SequenceType:
		return "a list"
	case ast.NullType:
		return "empty"
	case ast.BoolType:
		return "true or false"
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return "a number"
	}
	return "a text"
}

// known reports whether there is a value to read, and not too many were read.
func (t *tree) known(p place) bool {
	if t.entries++; t.entries == maxEntries {
		t.mistake(p.path, p.key, "with all its aliases the file has more than %d entries", maxEntries)
	}
	if t.entries >= maxEntries || t.resolve(p.node) == nil {
		t.bad[p.path] = true // so that nothing is said of what is missing there
		return false
	}
	return true
}

// mapping returns the entries of a map in the order written, those it merges last.
func (t *tree) mapping(p place, what, want string) (entries []place, ok bool) {
	if !t.known(p) {
		return nil, false
	}
	values := mapValues(t.resolve(p.node))
	if values == nil {
		t.wrongType(p, what, want)
		return nil, false
	}
	var merges []place
	there := map[string]*token.Token{}
	for _, value := range values {
		at := firstToken(value.Key)
		if value.Key.IsMergeKey() {
			merges = append(merges, place{path: p.path, key: at, node: value.Value})
			continue
		}
		name, isText := scalar(t.resolve(keyNode(value.Key)))
		if !isText {
			t.mistake(p.path+".?", at, "a key must be a plain text")
			continue
		}
		if first := there[name]; first != nil {
			t.mistake(p.path+".?", at, "%s is there twice, first in line %d; keep one", t.quote(name, at), first.Position.Line)
			continue
		}
		there[name] = at
		entries = append(entries, place{path: join(p.path, name), name: name, key: at, node: value.Value})
	}
	for _, merge := range merges {
		for _, merged := range t.merged(merge) {
			if there[merged.name] == nil {
				there[merged.name] = merged.key
				entries = append(entries, merged)
			}
		}
	}
	for _, e := range entries {
		t.places[e.path] = t.point(e)
	}
	return entries, true
}

// merged returns the entries that a merge key brings, of one map or a list of them.
func (t *tree) merged(p place) (entries []place) {
	const what, want = "what << merges", "a map or an alias of one"
	if list, isList := t.resolve(p.node).(*ast.SequenceNode); isList {
		for _, value := range list.Values {
			more, _ := t.mapping(place{path: p.path, key: firstToken(value), node: value}, what, want)
			entries = append(entries, more...)
		}
		return entries
	}
	entries, _ = t.mapping(p, what, want)
	return entries
}

// fields reads a map with the fields of an object, and notes those that are
// unknown or missing.
func (t *tree) fields(p place, what string, o *object) (fields map[string]place, ok bool) {
	entries, ok := t.mapping(p, what, "a map of "+strings.Join(o.names(), ", "))
	if !ok {
		return nil, false
	}
	fields = map[string]place{}
	for _, e := range entries {
		if !slices.Contains(o.names(), e.name) {
			meant := intended(e.name, o.names())
			said := strconv.Quote(e.name)
			if meant == "" { // it need not be meant as a name at all
				said = t.quote(e.name, e.key)
			}
			t.mistake(p.path+".?", e.key, "%s has no field %s; %s", what, said, remedy(e.name, meant, o.names()))
			t.bad[join(p.path, meant)] = true
			continue
		}
		fields[e.name] = e
	}
	for _, f := range o.fields {
		if _, found := fields[f.name]; f.required && !found && !t.bad[join(p.path, f.name)] {
			at := p.key
			if p.name == "" {
				at = t.point(p)
			}
			t.mistake(join(p.path, f.name), at, "%s lacks %s: %s", what, f.name, lowerFirst(f.about))
		}
	}
	return fields, true
}

// intended returns the field that an unknown one was probably meant to be, or "".
func intended(name string, names []string) string {
	if near := nearest(name, names); near != "" {
		return near
	}
	for _, candidate := range names { // "password" for password_file
		if len(name) > 2 && strings.HasPrefix(candidate, name) {
			return candidate
		}
	}
	return ""
}

// remedy says what to do about an unknown field.
func remedy(name, meant string, names []string) string {
	if burst, is := strings.CutPrefix(name, "burst="); is && slices.Contains(names, "burst") {
		return fmt.Sprintf("inside of {} a comma ends the limit: quote it, or write burst: %s", burst)
	}
	if meant != "" {
		return fmt.Sprintf("did you mean %s?", meant)
	}
	return "it has " + strings.Join(names, ", ")
}

// list returns the values of a list.
func (t *tree) list(p place, what, want string) (values []place, ok bool) {
	if !t.known(p) {
		return nil, false
	}
	sequence, isList := t.resolve(p.node).(*ast.SequenceNode)
	if !isList {
		t.wrongType(p, what, want)
		return nil, false
	}
	for i, value := range sequence.Values {
		e := place{path: fmt.Sprintf("%s[%d]", p.path, i), key: firstToken(value), node: value}
		if e.key == nil {
			e.key = p.key
		}
		t.places[e.path] = t.point(e)
		values = append(values, e)
	}
	return values, true
}

// text reads a scalar as it is written.
func (t *tree) text(p place, what, want string) (text string, ok bool) {
	if !t.known(p) {
		return "", false
	}
	text, isScalar := scalar(t.resolve(p.node))
	if !isScalar || text == "" {
		if isScalar {
			t.mistake(p.path, t.point(p), "%s is empty; it must be %s", what, want)
		} else {
			t.wrongType(p, what, want)
		}
		return "", false
	}
	return text, true
}

// boolean reads true or false.
func (t *tree) boolean(p place) bool {
	if !t.known(p) {
		return false
	}
	node := t.resolve(p.node)
	value, isBool := node.(*ast.BoolNode)
	if isBool {
		return value.Value
	}
	if text, isScalar := scalar(node); isScalar {
		t.mistake(p.path, t.point(p), "%s is %s; it must be true or false", p.name, t.quote(text, t.point(p)))
	} else {
		t.wrongType(p, p.name, "true or false")
	}
	return false
}

// scalar returns a scalar's text as it is written; what is empty has none.
func scalar(n ast.Node) (text string, ok bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return strings.TrimSuffix(n.Value.Value, "\n"), true
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// keyNode returns what a key holds, also one written with "?".
func keyNode(key ast.MapKeyNode) ast.Node {
	if explicit, is := key.(*ast.MappingKeyNode); is {
		return explicit.Value
	}
	return key
}

// mapValues returns the entries of a map; nil if the node is none.
func mapValues(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return append([]*ast.MappingValueNode{}, n.Values...)
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// firstToken returns where a node begins. A block's own token is its first colon.
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

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func lowerFirst(text string) string {
	return strings.ToLower(text[:1]) + strings.TrimSuffix(text[1:], ".")
}
