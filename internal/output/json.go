package output

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/texts"
)

// JSON returns a document as JSON on one line, with escapes for invisible characters: the same to a program, and
// harmless on a terminal.
func JSON(document any) ([]byte, error) {
	text, err := json.Marshal(document)
	return escapeJSON(text), err
}

// indentedJSON is [JSON] on several lines.
func indentedJSON(document any) ([]byte, error) {
	text, err := json.MarshalIndent(document, "", "  ")
	return escapeJSON(text), err
}

// Base64IfNeeded returns a text in base64 if it is not UTF-8, so that JSON cannot contain it. Otherwise it returns
// nothing, so that the field is omitted.
func Base64IfNeeded(text string) string {
	if utf8.ValidString(text) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(text))
}

// AllBase64IfNeeded is [Base64IfNeeded] for a list: all of its texts in base64 if any is not UTF-8.
func AllBase64IfNeeded(texts []string) []string {
	if !slices.ContainsFunc(texts, func(text string) bool { return !utf8.ValidString(text) }) {
		return nil
	}
	encoded := make([]string, len(texts))
	for i, text := range texts {
		encoded[i] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	return encoded
}

// escapeJSON escapes what the encoder leaves: invisible characters beyond ASCII, which are always in strings, and
// DEL.
func escapeJSON(text []byte) []byte {
	if !slices.ContainsFunc(text, func(b byte) bool { return b > '~' }) {
		return text
	}
	escaped := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case !hiddenInJSON(r):
			escaped = append(escaped, text[:size]...)
		case r <= 0xffff:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		}
		text = text[size:]
	}
	return escaped
}

func hiddenInJSON(r rune) bool { return r > '~' && !texts.IsVisible(r) }
