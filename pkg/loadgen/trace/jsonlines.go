package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// jsonParser reads lines that are JSON objects.
type jsonParser struct {
	plan       *plan
	time, cost jsonPath
	wanted     []jsonPath
}

// jsonPath is the name of a field: as it stands, or a path of names with dots between
// them into objects in objects.
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

type jsonObject map[string]json.RawMessage

// objectOf returns the object that text is, or nil.
func objectOf(text []byte) jsonObject {
	var object jsonObject
	if json.Unmarshal(text, &object) != nil {
		return nil
	}
	return object
}

// parse implements parser.
func (j *jsonParser) parse(line []byte, r *record) (reason string) {
	object := objectOf(line)
	if object == nil {
		return "it is no JSON object"
	}
	text, reason := object.text(&j.time)
	if reason != "" {
		return reason
	}
	if text == nil {
		return fmt.Sprintf("it has no %s", j.time.name)
	}
	var ok bool
	if r.at, ok = parseInstant(text); !ok {
		return wrongTime(text)
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

// text returns the value of a field: a string, or a number or truth value as it is
// written; nil if there is none. A cost or a time may be either.
func (o jsonObject) text(path *jsonPath) (text []byte, reason string) {
	raw := o.find(path)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, ""
	case raw[0] == '"':
		if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
			return inner, ""
		}
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fmt.Sprintf("its %s is no string", path.name)
		}
		return []byte(s), ""
	case raw[0] == '{' || raw[0] == '[':
		return nil, fmt.Sprintf("its %s is an object or an array, and not one value", path.name)
	}
	return raw, ""
}

func (o jsonObject) find(path *jsonPath) json.RawMessage {
	if raw, found := o[path.name]; found || path.rest == nil {
		return raw
	}
	if raw := o[path.first]; len(raw) > 0 && raw[0] == '{' {
		return objectOf(raw).find(path.rest)
	}
	return nil
}

// namesOfJSON returns the paths of the fields of the first object.
func namesOfJSON(head *chunk) []string {
	for line := range bytes.Lines(head.data) {
		if object := objectOf(bytes.TrimSpace(line)); object != nil {
			names := object.names("")
			slices.Sort(names)
			return names
		}
	}
	return nil
}

func (o jsonObject) names(prefix string) []string {
	var names []string
	for name, raw := range o {
		if inner := objectOf(raw); inner != nil {
			names = append(names, inner.names(prefix+name+".")...)
		} else {
			names = append(names, prefix+name)
		}
	}
	return names
}
