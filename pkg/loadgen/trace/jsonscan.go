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

// stringEnd returns where the string at i ends, or -1 if there is none. It looks at eight bytes at a time.
func stringEnd(text []byte, i int) int {
	if i >= len(text) || text[i] != '"' {
		return -1
	}
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for i++; ; {
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
		switch {
		case i >= len(text), text[i] < ' ':
			return -1
		case text[i] == '"':
			return i + 1
		case text[i] == '\\':
			i++
		}
		i++
	}
}
