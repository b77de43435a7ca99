package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// jsonParser reads lines with JSON objects. A name of a column is that of a field, or a path with dots into objects.
type jsonParser struct {
	columns []string
	objects bool        // a value may be an object or an array
	fields  []jsonField // of the line, for reuse
}

// parse implements parser.
func (j *jsonParser) parse(line []byte, to [][]byte) (reason string) {
	var is bool
	if j.fields, is = scanObject(j.fields[:0], bytes.TrimSpace(line)); !is {
		return "it is not a JSON object"
	}
	for i, name := range j.columns {
		if name == "" {
			continue
		}
		raw, twice := find(j.fields, name)
		switch {
		case twice:
			return "it has its " + name + " twice"
		case len(raw) == 0 || string(raw) == "null":
		case raw[0] == '"':
			if to[i] = raw[1 : len(raw)-1]; bytes.IndexByte(to[i], '\\') >= 0 || !utf8.Valid(to[i]) {
				to[i] = []byte(unescaped(to[i]))
			}
		case (raw[0] == '{' || raw[0] == '[') && !j.objects:
			return fmt.Sprintf("its %s is an object or an array, and not one value", name)
		default:
			to[i] = raw
		}
	}
	return ""
}

// find returns the value of a field, and whether there are two of them.
func find(fields []jsonField, name string) (value []byte, twice bool) {
	for i := range fields {
		if f := &fields[i]; f.isNamed(name) {
			twice, value = value != nil, f.value
			if twice {
				return nil, true
			}
		}
	}
	first, rest, nested := strings.Cut(name, ".")
	if value != nil || !nested {
		return value, false
	}
	if value, twice = find(fields, first); twice {
		return nil, true
	}
	inner, _ := scanObject(nil, value)
	return find(inner, rest)
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
func namesOfJSON(data []byte) (names []string) {
	for line := range bytes.Lines(data) {
		if fields, is := scanObject(nil, bytes.TrimSpace(line)); is {
			names = namesOf(fields, "")
			break
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func namesOf(fields []jsonField, prefix string) (names []string) {
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

// jsonField is a field of an object.
type jsonField struct {
	name    []byte // as it is written between its quotes
	escaped bool   // the name has a backslash
	value   []byte // its text
}

// scanObject appends the fields of the object that text is. A log has millions of lines, and of each only a few fields
// are wanted, so the others are skipped: only their quotes and brackets are looked at.
func scanObject(fields []jsonField, text []byte) (_ []jsonField, ok bool) {
	if len(text) < 2 || text[0] != '{' {
		return fields, false
	}
	i := skipSpace(text, 1)
	if i < len(text) && text[i] == '}' {
		return fields, i+1 == len(text)
	}
	for {
		quote := stringEnd(text, i)
		if quote < 0 {
			return fields, false
		}
		name := text[i+1 : quote-1]
		if i = skipSpace(text, quote); i >= len(text) || text[i] != ':' {
			return fields, false
		}
		i = skipSpace(text, i+1)
		end := valueEnd(text, i)
		if end < 0 {
			return fields, false
		}
		fields = append(fields, jsonField{name, bytes.IndexByte(name, '\\') >= 0, text[i:end]})
		switch i = skipSpace(text, end); {
		case i >= len(text):
			return fields, false
		case text[i] == '}':
			return fields, i+1 == len(text)
		case text[i] != ',':
			return fields, false
		}
		i = skipSpace(text, i+1)
	}
}

// valueEnd returns where the value at i ends, or -1 if it has no end.
func valueEnd(text []byte, i int) int {
	if i < len(text) && text[i] == '"' {
		return stringEnd(text, i)
	}
	begin := i
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i = stringEnd(text, i) - 1; i < 0 || depth == 0 {
				return -1
			}
		case '{', '[':
			if depth++; depth == 1 && i > begin {
				return -1
			}
		case '}', ']', ',', ' ', '\t', '\r', '\n':
			switch closes := text[i] == '}' || text[i] == ']'; {
			case depth == 0 && i == begin:
				return -1
			case depth == 0:
				return i
			case closes && depth == 1:
				return i + 1
			case closes:
				depth--
			}
		}
	}
	return -1
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// stringEnd returns where the string at i ends, or -1 if there is none.
func stringEnd(text []byte, i int) int {
	if i >= len(text) || text[i] != '"' {
		return -1
	}
	for i++; i < len(text) && text[i] >= ' '; i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return -1
}
