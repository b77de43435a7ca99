package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/texts"
)

// yamlOf writes a JSON document as YAML that parsers of YAML 1.1 and 1.2 read in the same way, even strict ones.
// They disagree about some bare words (no, 1:30, 012), so a string is bare only if no parser can take it for
// anything else.
func yamlOf(document any) ([]byte, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	w := yamlWriter{in: json.NewDecoder(bytes.NewReader(text))}
	w.in.UseNumber()
	if err := w.value(alone, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return w.out, nil
}

// yamlWriter converts JSON tokens to YAML.
type yamlWriter struct {
	in  *json.Decoder
	out []byte
}

// place is what precedes a value.
type place int

const (
	alone     place = iota
	afterKey        // "key:"
	afterDash       // "- "
)

// value writes the next value. indent is that of the enclosing mapping or list.
func (w *yamlWriter) value(at place, indent int) error {
	token, err := w.in.Token()
	if err != nil {
		return err
	}
	bracket, is := token.(json.Delim)
	if is && w.in.More() {
		if at == afterKey {
			w.out = append(w.out, '\n')
		}
		if at == afterDash || at == afterKey && bracket == '{' { // the dashes of a list are below its key
			indent += 2
		}
		return w.items(bracket, at, indent)
	}
	if at == afterKey {
		w.out = append(w.out, ' ')
	}
	switch token := token.(type) {
	case json.Delim:
		w.out = append(w.out, token.String()...)
		end, err := w.in.Token()
		if err != nil {
			return err
		}
		w.out = append(w.out, end.(json.Delim).String()...)
	case string:
		w.out = appendYAML(w.out, token)
	case json.Number:
		w.out = append(w.out, yamlNumber(token.String())...)
	case nil:
		w.out = append(w.out, "null"...)
	default:
		w.out = fmt.Append(w.out, token)
	}
	w.out = append(w.out, '\n')
	return nil
}

// items writes the content of a mapping or a list, one item a line.
func (w *yamlWriter) items(bracket json.Delim, at place, indent int) error {
	for first := true; w.in.More(); first = false {
		if !first || at != afterDash {
			w.out = append(w.out, strings.Repeat(" ", indent)...)
		}
		if bracket == '[' {
			w.out = append(w.out, "- "...)
			if err := w.value(afterDash, indent); err != nil {
				return err
			}
			continue
		}
		key, err := w.in.Token()
		if err != nil {
			return err
		}
		w.key(key.(string), indent)
		if err := w.value(afterKey, indent); err != nil {
			return err
		}
	}
	_, err := w.in.Token() // the end
	return err
}

// longestKey is the longest key at the beginning of a line; parsers search at most 1024 characters for its colon.
const longestKey = 500

func (w *yamlWriter) key(key string, indent int) {
	text := appendYAML(nil, key)
	if len(text) > longestKey {
		w.out = append(append(w.out, "? "...), text...)
		w.out = append(append(w.out, '\n'), strings.Repeat(" ", indent)...)
		text = nil
	}
	w.out = append(append(w.out, text...), ':')
}

// appendYAML appends a string, bare if it can be.
func appendYAML(to []byte, text string) []byte {
	if isBare(text) {
		return append(to, text...)
	}
	to = append(to, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			to = append(to, '\\', byte(r))
		case texts.IsVisible(r):
			to = utf8.AppendRune(to, r)
		case r <= 0xff:
			to = fmt.Appendf(to, `\x%02X`, r)
		case r <= 0xffff:
			to = fmt.Appendf(to, `\u%04X`, r)
		default:
			to = fmt.Appendf(to, `\U%08X`, r)
		}
	}
	return append(to, '"')
}

// isBare reports whether a string needs no quotes in any version of YAML: it begins with a letter, contains nothing
// that ends a word, and is no word with another meaning.
func isBare(text string) bool {
	for i := range len(text) {
		c := text[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789_./:@-", rune(c))) {
			return false
		}
	}
	words := []string{"y", "n", "yes", "no", "true", "false", "on", "off", "null", "nan", "inf"}
	return text != "" && text[len(text)-1] != ':' && !slices.Contains(words, strings.ToLower(text))
}

// yamlNumber writes a number of JSON so that YAML 1.1 reads it as one: there an exponent needs a point before it
// and a sign.
func yamlNumber(text string) string {
	mantissa, exponent, is := strings.Cut(strings.ToLower(text), "e")
	if !is {
		return text
	}
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	if exponent[0] != '-' && exponent[0] != '+' {
		exponent = "+" + exponent
	}
	return mantissa + "e" + exponent
}
