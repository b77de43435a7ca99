// Package strictjson reads JSON with encoding/json, and refuses what that overlooks: names that an object has twice, or in
// another case than the field, text after the value, invalid UTF-8 and half a surrogate pair. A reader would see something
// else there than the writer meant.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Decode reads text, which is one value, into what into points to, and refuses names that are not known there.
func Decode(text []byte, into any) error {
	d, err := NewDecoder(text)
	if err != nil {
		return err
	}
	if err := d.Decode(into); err != nil {
		return err
	}
	if err := End(d); err != nil {
		return err
	}
	return walk(json.NewDecoder(bytes.NewReader(text)), reflect.TypeOf(into)) // what is nested too deeply was refused above
}

// NewDecoder returns a decoder of text, for [Members] and [End].
func NewDecoder(text []byte) (*json.Decoder, error) {
	switch {
	case !utf8.Valid(text):
		return nil, errors.New("it is not valid UTF-8")
	case hasHalfPair(text):
		return nil, errors.New("it has half a surrogate pair; write both halves, or the character itself")
	}
	return json.NewDecoder(bytes.NewReader(text)), nil
}

// End refuses what follows the value.
func End(d *json.Decoder) error {
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("something follows its end at byte %d", d.InputOffset())
	}
	return nil
}

// Members reads an object after its opening brace. read gets each name, and has to read its value from d.
func Members(d *json.Decoder, read func(name string) error) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // Token takes nothing else here
		if seen[name] {
			return fmt.Errorf("%q is given twice; keep one", name)
		}
		seen[name] = true
		if err := read(name); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// walk reads a value of a type for its names. The type is nil if it can be any.
func walk(d *json.Decoder, t reflect.Type) error {
	token, err := d.Token()
	switch token {
	case json.Delim('{'):
		return Members(d, func(name string) error {
			inner, known := member(t, name)
			if !known {
				return fmt.Errorf("unknown field %q", name)
			}
			return walk(d, inner)
		})
	case json.Delim('['):
		inner, _ := member(t, "")
		for err == nil && d.More() {
			err = walk(d, inner)
		}
		if err == nil {
			_, err = d.Token()
		}
	}
	return err
}

// member returns the type of what has a name in a value of type t, or of the elements of a list. It is not known if t is a
// struct without a field of that name.
func member(t reflect.Type, name string) (inner reflect.Type, known bool) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil, true
	}
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Array:
		return t.Elem(), true
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && cmp.Or(tag, f.Name) == name {
				return f.Type, true
			}
		}
		return nil, false
	default:
		return nil, true
	}
}

// hasHalfPair reports whether an escape is half a surrogate pair.
func hasHalfPair(text []byte) bool {
	for at := bytes.IndexByte(text, '\\'); at >= 0; at = bytes.IndexByte(text, '\\') {
		text = text[at:]
		length := min(2, len(text)) // an escaped backslash begins no escape
		if first := unit(text); utf16.IsSurrogate(first) {
			if length = len(`\ud83d\ude00`); utf16.DecodeRune(first, unit(text[length/2:])) == utf8.RuneError {
				return true
			}
		}
		text = text[length:]
	}
	return false
}

// unit returns the UTF-16 unit of an escape at the beginning of text, or zero.
func unit(text []byte) rune {
	if len(text) < len(`\ud83d`) || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	n, _ := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n)
}
