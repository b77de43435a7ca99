package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// jsonParser reads lines with JSON objects.
type jsonParser struct {
	plan       *plan
	time, cost jsonPath
	wanted     []jsonPath
}

// jsonPath is the name of a field, or a path with dots into nested objects.
type jsonPath struct {
	name  string
	first string // up to the first dot
	rest  *jsonPath
}

func newJSONPath(name string) jsonPath {
	path := jsonPath{name: name}
	if first, rest, found := strings.Cut(name, "."); found {
		further := newJSONPath(rest)
		path.first, path.rest = first, &further
	}
	return path
}

func newJSONParser(p *plan) *jsonParser {
	j := &jsonParser{plan: p, time: newJSONPath(p.time), cost: newJSONPath(p.cost)}
	for _, w := range p.wanted {
		j.wanted = append(j.wanted, newJSONPath(w.Name))
	}
	return j
}

// jsonObject is the text of a valid object. Decoding it would take several times as long as finding the few fields
// that are wanted.
type jsonObject []byte

// objectOf returns text as an object, or nil.
func objectOf(text []byte) jsonObject {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' || !json.Valid(text) {
		return nil
	}
	return text
}

// fields yields the names, as written between their quotes, and the values.
func (o jsonObject) fields() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for i := 1; ; {
			for o[i] != '"' { // space, and the comma after the field before
				if o[i] == '}' {
					return
				}
				i++
			}
			name := o[i+1 : i+1+closingQuote(o[i+1:])]
			for i += len(name) + 2; o[i] != ':'; i++ {
			}
			for i++; isJSONSpace(o[i]); i++ {
			}
			end := i + valueLength(o[i:])
			if !yield(name, o[i:end]) {
				return
			}
			i = end
		}
	}
}

func isJSONSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// valueLength returns the length of the value at the beginning of text, which goes on after it.
func valueLength(text []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch c := text[i]; {
		case c == '"':
			i += 1 + closingQuote(text[i+1:])
		case c == '{' || c == '[':
			depth++
			continue
		case c == '}' || c == ']':
			if depth == 0 { // the end of the enclosing object or list
				return i
			}
			depth--
		case depth == 0 && (c == ',' || isJSONSpace(c)):
			return i
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// parse implements parser.
func (j *jsonParser) parse(line []byte, r *record) (reason string) {
	object := objectOf(line)
	if object == nil {
		return "it is not a JSON object"
	}
	text, reason := object.text(&j.time)
	if reason != "" {
		return reason
	}
	if text == nil {
		return fmt.Sprintf("it has no %s", j.time.name)
	}
	if reason = j.plan.instant(text, r); reason != "" {
		return reason
	}
	if r.cost, reason = object.text(&j.cost); reason != "" {
		return reason
	}
	for i := range j.wanted {
		if r.values[i], reason = object.text(&j.wanted[i]); reason != "" {
			return reason
		}
	}
	return ""
}

// text returns the value of a field: the content of a string, or a number or truth value as it is written; nil if
// there is none.
func (o jsonObject) text(path *jsonPath) (text []byte, reason string) {
	raw := o.find(path)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, ""
	case raw[0] == '"':
		inner := raw[1 : len(raw)-1]
		if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
			return inner, ""
		}
		return []byte(unescaped(inner)), ""
	case raw[0] == '{' || raw[0] == '[':
		return nil, fmt.Sprintf("its %s is an object or an array, and not one value", path.name)
	}
	return raw, ""
}

// find returns the value of a field, nil if there is none. Of several with the same name it returns the last.
func (o jsonObject) find(path *jsonPath) []byte {
	var inner, value []byte
	for name, v := range o.fields() {
		switch {
		case isNamed(name, path.name):
			value = v
		case path.rest != nil && isNamed(name, path.first):
			inner = v
		}
	}
	if value == nil && len(inner) > 0 && inner[0] == '{' {
		return jsonObject(inner).find(path.rest)
	}
	return value
}

// isNamed reports whether a name in JSON notation equals name.
func isNamed(written []byte, name string) bool {
	if bytes.IndexByte(written, '\\') < 0 {
		return string(written) == name
	}
	return unescaped(written) == name
}

// unescaped decodes the text between the quotes of a valid string.
func unescaped(written []byte) (text string) {
	if json.Unmarshal(slices.Concat([]byte{'"'}, written, []byte{'"'}), &text) != nil {
		return string(written)
	}
	return text
}

// namesOfJSON returns the paths of the fields of the first object.
func namesOfJSON(head *chunk) []string {
	for line := range bytes.Lines(head.data) {
		if object := objectOf(line); object != nil {
			names := object.names("")
			slices.Sort(names)
			return slices.Compact(names)
		}
	}
	return nil
}

func (o jsonObject) names(prefix string) []string {
	var names []string
	for written, value := range o.fields() {
		name := prefix + unescaped(written)
		if value[0] == '{' {
			names = append(names, jsonObject(value).names(name+".")...)
		} else {
			names = append(names, name)
		}
	}
	return names
}
