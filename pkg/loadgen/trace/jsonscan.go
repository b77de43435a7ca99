package trace

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// jsonField is a field of an object.
type jsonField struct {
	name    []byte // as it is written between its quotes
	escaped bool   // the name has a backslash
	value   []byte // its text
}

// maxDepth is how deep values may lie in each other, as in encoding/json.
const maxDepth = 10_000

// scanObject appends the fields of the object that text is. It accepts exactly what json.Valid does, in one pass: a log has
// millions of lines, and of each only a few fields are wanted.
func scanObject(fields []jsonField, text []byte) (_ []jsonField, ok bool) {
	if len(text) == 0 || text[0] != '{' {
		return fields, false
	}
	fields, end := scanFields(fields, true, text, 1, 1)
	return fields, end == len(text)
}

// scanFields scans an object whose bracket is before i, and returns where it ends, or -1 if it is malformed. It appends its fields
// if they are wanted.
func scanFields(fields []jsonField, wanted bool, text []byte, i, depth int) (_ []jsonField, end int) {
	if i = skipSpace(text, i); i < len(text) && text[i] == '}' {
		return fields, i + 1
	}
	for {
		if i >= len(text) || text[i] != '"' {
			return fields, -1
		}
		quote := stringEnd(text, i+1)
		if quote < 0 {
			return fields, -1
		}
		name := text[i+1 : quote]
		if i = skipSpace(text, quote+1); i >= len(text) || text[i] != ':' {
			return fields, -1
		}
		i = skipSpace(text, i+1)
		end := valueEnd(text, i, depth)
		if end < 0 {
			return fields, -1
		}
		if wanted {
			fields = append(fields, jsonField{name, bytes.IndexByte(name, '\\') >= 0, text[i:end]})
		}
		if i = skipSpace(text, end); i >= len(text) {
			return fields, -1
		}
		switch text[i] {
		case '}':
			return fields, i + 1
		case ',':
			i = skipSpace(text, i+1)
		default:
			return fields, -1
		}
	}
}

// valueEnd returns where the value at i ends, or -1 if it is malformed. depth is the number of values around it.
func valueEnd(text []byte, i, depth int) int {
	if i >= len(text) {
		return -1
	}
	switch text[i] {
	case '"':
		if quote := stringEnd(text, i+1); quote >= 0 {
			return quote + 1
		}
		return -1
	case '{':
		if depth == maxDepth {
			return -1
		}
		_, end := scanFields(nil, false, text, i+1, depth+1)
		return end
	case '[':
		if depth == maxDepth {
			return -1
		}
		return arrayEnd(text, i+1, depth+1)
	case 't':
		return wordEnd(text, i, "true")
	case 'f':
		return wordEnd(text, i, "false")
	case 'n':
		return wordEnd(text, i, "null")
	}
	return numberEnd(text, i)
}

func arrayEnd(text []byte, i, depth int) int {
	if i = skipSpace(text, i); i < len(text) && text[i] == ']' {
		return i + 1
	}
	for {
		end := valueEnd(text, i, depth)
		if end < 0 {
			return -1
		}
		if i = skipSpace(text, end); i >= len(text) {
			return -1
		}
		switch text[i] {
		case ']':
			return i + 1
		case ',':
			i = skipSpace(text, i+1)
		default:
			return -1
		}
	}
}

func wordEnd(text []byte, i int, word string) int {
	if len(text)-i < len(word) || string(text[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func numberEnd(text []byte, i int) int {
	if i < len(text) && text[i] == '-' {
		i++
	}
	switch {
	case i < len(text) && text[i] == '0':
		i++
	default:
		if i = digitsEnd(text, i); i < 0 {
			return -1
		}
	}
	if i < len(text) && text[i] == '.' {
		if i = digitsEnd(text, i+1); i < 0 {
			return -1
		}
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		return digitsEnd(text, i)
	}
	return i
}

// digitsEnd returns where the digits at i end, or -1 if there is none.
func digitsEnd(text []byte, i int) int {
	begin := i
	for i < len(text) && text[i]-'0' <= 9 {
		i++
	}
	if i == begin {
		return -1
	}
	return i
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && isJSONSpace(text[i]) {
		i++
	}
	return i
}

// stringEnd returns the quote that ends the string whose content begins at i, or -1. It looks at eight bytes at a time.
func stringEnd(text []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for {
		for ; len(text)-i >= 8; i += 8 {
			w := binary.LittleEndian.Uint64(text[i:])
			quotes, slashes := w^'"'*ones, w^'\\'*ones
			// In the lowest byte with a set top bit there is a control character, a quote or a backslash.
			found := ((w-' '*ones)&^w | (quotes-ones)&^quotes | (slashes-ones)&^slashes) & tops
			if found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
		}
		if i >= len(text) {
			return -1
		}
		switch c := text[i]; {
		case c == '"':
			return i
		case c < ' ':
			return -1
		case c != '\\':
			i++
		case i+1 >= len(text):
			return -1
		case text[i+1] == 'u':
			if len(text)-i < len(`\u0000`) {
				return -1
			}
			for _, digit := range text[i+2 : i+6] {
				if digit-'0' > 9 && digit|0x20-'a' > 5 {
					return -1
				}
			}
			i += len(`\u0000`)
		default:
			switch text[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			default:
				return -1
			}
		}
	}
}
