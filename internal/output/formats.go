package output

import (
	"bytes"
	"encoding/json"
	"errors"
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

// Error is an error for programs: in a field of the answer's document, or in its own document.
type Error struct {
	// Kind is one of a small set of words; Message is the line for people.
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Document returns the JSON document of an error without an answer.
func (e *Error) Document() any { return &errorOnly{SchemaVersion, e} }

// errorOnly is the document of an error without an answer.
type errorOnly struct {
	SchemaVersion int    `json:"schema_version"`
	Error         *Error `json:"error"`
}

// Pending is an answer whose document is not printed yet, because an error may have to be added. A nil Pending is
// no answer.
type Pending struct {
	printer  *Printer
	document any // nil if all was printed
}

// Hold prints an answer, but holds a single document back until [Pending.End].
func (p *Printer) Hold(a Answer) (*Pending, error) {
	if p.Filter == nil && p.Format == "json" {
		return &Pending{p, documentOf(a)}, nil
	}
	return &Pending{printer: p}, p.Answer(a)
}

// End prints the document, with an error added unless that is nil. JSON lines end with a line for the error. CSV
// and tables cannot contain it.
func (h *Pending) End(e *Error) error {
	switch {
	case h == nil || h.printer.Quiet:
		return nil
	case h.document != nil:
		return h.printer.write(&withFields{h.document, h.printer.Config, e})
	case e != nil && h.printer.Format.Shape() == AsLines:
		return h.printer.Error(e)
	}
	return nil
}

// withFields is a document with fields that any can have.
type withFields struct {
	document any
	Config   fmt.Stringer `json:"config,omitempty"`
	Error    *Error       `json:"error,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (d *withFields) MarshalJSON() ([]byte, error) {
	type fields withFields
	text, err := json.Marshal(d.document)
	more, moreErr := json.Marshal((*fields)(d))
	if err != nil || moreErr != nil || len(more) == len("{}") {
		return text, errors.Join(err, moreErr)
	}
	if text = bytes.TrimSuffix(text, []byte("}")); len(text) > len("{") {
		text = append(text, ',')
	}
	return append(text, more[1:]...), nil
}

// Error prints an error for programs as its own document: JSON or a JSON line. CSV, tables and what a filter makes
// cannot contain it.
func (p *Printer) Error(e *Error) error {
	if shape := p.Format.Shape(); p.Quiet || p.Filter != nil || shape != AsDocument && shape != AsLines {
		return nil
	}
	return p.write(e.Document())
}
