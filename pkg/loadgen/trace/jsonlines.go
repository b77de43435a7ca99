package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// jsonParser reads lines with JSON objects.
type jsonParser struct {
	plan       *plan
	time, cost jsonPath
	wanted     []jsonPath
	fields     []jsonField // of the line, for reuse
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

func isJSONSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// parse implements parser.
func (j *jsonParser) parse(line []byte, r *record) (reason string) {
	var is bool
	if j.fields, is = scanObject(j.fields[:0], bytes.TrimSpace(line)); !is {
		return "it is not a JSON object"
	}
	if !j.plan.nested {
		text, reason := j.text(&j.time)
		if reason != "" {
			return reason
		}
		if text == nil {
			return hasNo(j.time.name)
		}
		if reason = j.plan.instant(text, r); reason != "" {
			return reason
		}
	}
	if r.cost, reason = j.text(&j.cost); reason != "" {
		return reason
	}
	for i := range j.wanted {
		if r.values[i], reason = j.text(&j.wanted[i]); reason != "" {
			return reason
		}
	}
	return ""
}

// text returns the value of a field of the line: the content of a string, or a number or truth value as it is written; nil if there is
// none.
func (j *jsonParser) text(path *jsonPath) (text []byte, reason string) {
	name := path.name
	raw, inner, twice := findIn(j.fields, path)
	for raw == nil && len(inner) > 0 && inner[0] == '{' && !twice {
		path = path.rest
		fields, _ := scanObject(nil, inner)
		raw, inner, twice = findIn(fields, path)
	}
	switch {
	case twice:
		return nil, "it has its " + name + " twice"
	case len(raw) == 0 || string(raw) == "null":
		return nil, ""
	case raw[0] == '"':
		inner := raw[1 : len(raw)-1]
		if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
			return inner, ""
		}
		return []byte(unescaped(inner)), ""
	case (raw[0] == '{' || raw[0] == '[') && !j.plan.nested:
		return nil, fmt.Sprintf("its %s is an object or an array, and not one value", name)
	}
	return raw, ""
}

// findIn returns the value of a field of one object, the value that the rest of its path would lie in, and whether the object has one
// of them twice.
func findIn(fields []jsonField, path *jsonPath) (value, inner []byte, twice bool) {
	for i := range fields {
		switch f := &fields[i]; {
		case f.isNamed(path.name):
			twice = twice || value != nil
			value = f.value
		case path.rest != nil && f.isNamed(path.first):
			twice = twice || inner != nil
			inner = f.value
		}
	}
	return value, inner, twice
}

// isNamed reports whether the name of f is name.
func (f *jsonField) isNamed(name string) bool {
	if f.escaped {
		return unescaped(f.name) == name
	}
	return string(f.name) == name
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
		if fields, is := scanObject(nil, bytes.TrimSpace(line)); is {
			names := namesOf(fields, "")
			slices.Sort(names)
			return slices.Compact(names)
		}
	}
	return nil
}

func namesOf(fields []jsonField, prefix string) []string {
	var names []string
	for _, f := range fields {
		name := prefix + unescaped(f.name)
		if inner, is := scanObject(nil, f.value); is {
			names = append(names, namesOf(inner, name+".")...)
		} else {
			names = append(names, name)
		}
	}
	return names
}
