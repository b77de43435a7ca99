package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

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
		case *ast.MappingKeyNode: // a key with "?"
			n = node.Value
		default:
			return n
		}
	}
}

// scalar returns a scalar's text as it is written; an empty value has none.
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

// mapValues returns the entries of a map; nil if the node is not a map.
func mapValues(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return append([]*ast.MappingValueNode{}, n.Values...)
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// kinds are words for values of another type than a text.
var kinds = map[ast.NodeType]string{ast.MappingType: "a map", ast.MappingValueType: "a map", ast.SequenceType: "a list",
	ast.NullType: "empty", ast.BoolType: "true or false", ast.IntegerType: "a number", ast.FloatType: "a number",
	ast.InfinityType: "a number", ast.NanType: "a number"}

func (r *Reader) wrongType(v Value, what, want string) {
	r.Mistake(v, "%s is %s; it must be %s", what, cmp.Or(kinds[r.resolve(v.node).Type()], "a text"), want)
}

// known reports whether there is a value to read, and the number of entries is within the bound. The zero Value, which
// a field has that is not in the file, is no mistake.
func (r *Reader) known(v Value) bool {
	if v.key == nil && v.node == nil {
		return false
	}
	if r.entries++; r.entries == maxEntries {
		r.MistakeAtKey(v, "with its aliases expanded, the file has more than %d entries", maxEntries)
	}
	if r.entries >= maxEntries || r.resolve(v.node) == nil {
		r.Spoil(v) // so that nothing is reported as missing there
		return false
	}
	return true
}

// Named returns the entries of a map whose names the author chose. It leaves out those with an invalid name. what is
// the word for a name in a mistake.
func (r *Reader) Named(v Value, what, want string, validate func(name string) error) []Value {
	entries, _ := r.Map(v, what, want)
	return slices.DeleteFunc(entries, func(e Value) bool {
		err := validate(e.Name)
		if err != nil {
			r.mistake(join(v.Path, "?"), e.key, "%s",
				strings.Replace(err.Error(), strconv.Quote(e.Name), quote(v.Path, e.Name), 1))
		}
		r.keep(e, e.key) // it begins with its name
		return err != nil
	})
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
	var merged []Value
	there := map[string]*token.Token{}
	for _, value := range values {
		at := firstToken(value.Key)
		name, isText := scalar(r.resolve(value.Key))
		switch first := there[name]; {
		case value.Key.IsMergeKey():
			for _, merge := range r.OneOrMore(Value{Path: v.Path, key: at, node: value.Value}) {
				merge.Path = v.Path
				more, _ := r.Map(merge, "what << merges", "a map or an alias of one")
				merged = append(merged, more...)
			}
		case !isText:
			r.mistake(v.Path+".?", at, "a key must be a plain text")
		case first != nil:
			r.mistake(v.Path+".?", at, "%s is given twice, first in line %d; keep one", quote(v.Path, name),
				first.Position.Line)
		default:
			there[name] = at
			entries = append(entries, Value{Path: join(v.Path, name), Name: name, key: at, node: value.Value})
		}
	}
	for _, e := range merged {
		if there[e.Name] == nil {
			there[e.Name] = e.key
			entries = append(entries, e)
		}
	}
	for _, e := range entries {
		r.keep(e, r.point(e))
	}
	return entries, true
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
		e := Value{Path: fmt.Sprintf("%s[%d]", v.Path, i), node: value, key: cmp.Or(firstToken(value), v.key)}
		r.keep(e, r.point(e))
		values = append(values, e)
	}
	return values, true
}

// OneOrMore returns the values of a list, or else the value itself.
func (r *Reader) OneOrMore(v Value) []Value {
	if !r.IsList(v) {
		return []Value{v}
	}
	values, _ := r.List(v, "", "")
	return values
}

// IsList reports whether a value is a list.
func (r *Reader) IsList(v Value) bool {
	_, is := r.resolve(v.node).(*ast.SequenceNode)
	return is
}

// Key returns an entry of that name, without a value, in the place of a text.
func (v Value) Key(name string) Value { return Value{Path: v.Path, Name: name, key: v.key} }

// IsMap reports whether a value is a map.
func (r *Reader) IsMap(v Value) bool { return mapValues(r.resolve(v.node)) != nil }

// Text reads a scalar as it is written.
func (r *Reader) Text(v Value, what, want string) (text string, ok bool) {
	if !r.known(v) {
		return "", false
	}
	text, isScalar := scalar(r.resolve(v.node))
	switch {
	case !isScalar:
		r.wrongType(v, what, want)
	case text == "":
		r.Mistake(v, "%s is empty; it must be %s", what, want)
	}
	return text, text != ""
}

// Parsed reads a text that parse turns into a value; what names it in a mistake, and want describes it. After a mistake
// the value is what parse returned, or zero.
func Parsed[T any](r *Reader, v Value, what, want string, parse func(text string) (T, error)) (value T, ok bool) {
	text, ok := r.Text(v, what, want)
	if !ok {
		return value, false
	}
	value, err := parse(text)
	if err != nil {
		r.Mistake(v, "%s", err)
	}
	return value, err == nil
}

// IsEmpty reports whether a value is missing, null or an empty text.
func (r *Reader) IsEmpty(v Value) bool {
	node := r.resolve(v.node)
	text, isScalar := scalar(node)
	return node == nil || node.Type() == ast.NullType || isScalar && text == ""
}

// Bool reads true or false.
func (r *Reader) Bool(v Value) bool {
	if !r.known(v) {
		return false
	}
	node := r.resolve(v.node)
	if value, isBool := node.(*ast.BoolNode); isBool {
		return value.Value
	}
	if text, isScalar := scalar(node); isScalar {
		r.Mistake(v, "%s is %s; it must be true or false", v.Name, quote(v.Path, text))
	} else {
		r.wrongType(v, v.Name, "true or false")
	}
	return false
}
