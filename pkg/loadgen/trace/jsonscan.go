package trace

import "bytes"

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
	for i < len(text) && isJSONSpace(text[i]) {
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
