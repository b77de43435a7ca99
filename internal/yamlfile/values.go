package yamlfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Named returns the entries of a map whose names the author chose. It leaves out those with an invalid name. what
// is the word for a name in a mistake.
func (r *Reader) Named(v Value, what, want string, validate func(name string) error) []Value {
	entries, _ := r.Map(v, what, want)
	return slices.DeleteFunc(entries, func(e Value) bool {
		err := validate(e.Name)
		if err != nil {
			r.mistake(join(v.Path, "?"), e.key, "%s", strings.Replace(err.Error(), strconv.Quote(e.Name), quote(v.Path, e.Name), 1))
		}
		r.places[e.Path] = e.key // it begins with its name
		return err != nil
	})
}

func (r *Reader) wrongType(v Value, what, want string) {
	r.mistake(v.Path, r.point(v), "%s is %s; it must be %s", what, kind(r.resolve(v.node)), want)
}

// known reports whether there is a value to read, and the number of entries is within the bound.
func (r *Reader) known(v Value) bool {
	if r.entries++; r.entries == maxEntries {
		r.mistake(v.Path, v.key, "with its aliases expanded, the file has more than %d entries", maxEntries)
	}
	if r.entries >= maxEntries || r.resolve(v.node) == nil {
		r.bad[v.Path] = true // so that nothing is reported as missing there
		return false
	}
	return true
}

// Map returns the entries of a map in their order; merged ones come last.
func (r *Reader) Map(v Value, what, want string) (entries []Value, ok bool) {
	if !r.known(v) {
		return nil, false
	}
	values := mapValues(r.resolve(v.node))
	if values == nil {
		r.wrongType(v, what, want)
		return nil, false
	}
	var merges []Value
	there := map[string]*token.Token{}
	for _, value := range values {
		at := firstToken(value.Key)
		if value.Key.IsMergeKey() {
			merges = append(merges, Value{Path: v.Path, key: at, node: value.Value})
			continue
		}
		name, isText := scalar(r.resolve(keyNode(value.Key)))
		if !isText {
			r.mistake(v.Path+".?", at, "a key must be a plain text")
			continue
		}
		if first := there[name]; first != nil {
			r.mistake(v.Path+".?", at, "%s is given twice, first in line %d; keep one", quote(v.Path, name), first.Position.Line)
			continue
		}
		there[name] = at
		entries = append(entries, Value{Path: join(v.Path, name), Name: name, key: at, node: value.Value})
	}
	for _, merge := range merges {
		for _, merged := range r.merged(merge) {
			if there[merged.Name] == nil {
				there[merged.Name] = merged.key
				entries = append(entries, merged)
			}
		}
	}
	for _, e := range entries {
		r.places[e.Path] = r.point(e)
	}
	return entries, true
}

// merged returns the entries of a merge key, from one map or a list of them.
func (r *Reader) merged(v Value) (entries []Value) {
	const what, want = "what << merges", "a map or an alias of one"
	if list, isList := r.resolve(v.node).(*ast.SequenceNode); isList {
		for _, value := range list.Values {
			more, _ := r.Map(Value{Path: v.Path, key: firstToken(value), node: value}, what, want)
			entries = append(entries, more...)
		}
		return entries
	}
	entries, _ = r.Map(v, what, want)
	return entries
}

// List returns the values of a list.
func (r *Reader) List(v Value, what, want string) (values []Value, ok bool) {
	if !r.known(v) {
		return nil, false
	}
	sequence, isList := r.resolve(v.node).(*ast.SequenceNode)
	if !isList {
		r.wrongType(v, what, want)
		return nil, false
	}
	for i, value := range sequence.Values {
		e := Value{Path: fmt.Sprintf("%s[%d]", v.Path, i), key: firstToken(value), node: value}
		if e.key == nil {
			e.key = v.key
		}
		r.places[e.Path] = r.point(e)
		values = append(values, e)
	}
	return values, true
}

// IsList reports whether a value is a list.
func (r *Reader) IsList(v Value) bool {
	_, is := r.resolve(v.node).(*ast.SequenceNode)
	return is
}

// IsMap reports whether a value is a map.
func (r *Reader) IsMap(v Value) bool { return mapValues(r.resolve(v.node)) != nil }

// Text reads a scalar as it is written.
func (r *Reader) Text(v Value, what, want string) (text string, ok bool) {
	if !r.known(v) {
		return "", false
	}
	text, isScalar := scalar(r.resolve(v.node))
	if !isScalar || text == "" {
		if isScalar {
			r.mistake(v.Path, r.point(v), "%s is empty; it must be %s", what, want)
		} else {
			r.wrongType(v, what, want)
		}
		return "", false
	}
	return text, true
}

// IsEmpty reports whether a value is null or an empty text.
func (r *Reader) IsEmpty(v Value) bool {
	node := r.resolve(v.node)
	if node == nil {
		return false
	}
	text, isScalar := scalar(node)
	return node.Type() == ast.NullType || isScalar && text == ""
}

// Bool reads true or false.
func (r *Reader) Bool(v Value) bool {
	if !r.known(v) {
		return false
	}
	node := r.resolve(v.node)
	value, isBool := node.(*ast.BoolNode)
	if isBool {
		return value.Value
	}
	if text, isScalar := scalar(node); isScalar {
		r.mistake(v.Path, r.point(v), "%s is %s; it must be true or false", v.Name, quote(v.Path, text))
	} else {
		r.wrongType(v, v.Name, "true or false")
	}
	return false
}

// Texts returns all texts, names and values, within a value, each once even if several aliases contain it. It notes
// no mistakes.
func (r *Reader) Texts(v Value) (texts []string) {
	seen := map[ast.Node]bool{}
	var walk func(n ast.Node)
	walk = func(n ast.Node) {
		if n = r.resolve(n); n == nil || seen[n] {
			return
		}
		seen[n] = true
		if text, is := scalar(n); is {
			texts = append(texts, text)
		}
		for _, entry := range mapValues(n) {
			walk(keyNode(entry.Key))
			walk(entry.Value)
		}
		if list, is := n.(*ast.SequenceNode); is {
			for _, value := range list.Values {
				walk(value)
			}
		}
	}
	walk(v.node)
	return texts
}
