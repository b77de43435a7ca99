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
	printer *Printer
	text    []byte // JSON without its last brace; nil if all was printed
}

// Hold prints an answer, but holds a single document back until [Pending.End].
func (p *Printer) Hold(a Answer) (*Pending, error) {
	held := &Pending{printer: p}
	var err error
	switch {
	case p.Quiet:
	case p.Filter != nil:
		err = p.Answer(a)
	case p.Format == "json":
		held.text, err = indentedJSON(p.documentOf(a))
		held.text = bytes.TrimRight(bytes.TrimSuffix(held.text, []byte("}")), "\n")
	default:
		err = p.Answer(a)
	}
	return held, err
}

// End prints the document, with an error added unless that is nil. JSON lines end with a line for the error. CSV
// and tables cannot contain it.
func (h *Pending) End(e *Error) error {
	if h == nil || h.printer.Quiet {
		return nil
	}
	if h.text == nil {
		if e == nil || h.printer.Format.Shape() != AsLines {
			return nil
		}
		return h.printer.Error(e)
	}
	text := h.text
	if e != nil {
		field, err := indentedJSON(struct {
			Error *Error `json:"error"`
		}{e})
		if err != nil {
			return err
		}
		if !bytes.HasSuffix(text, []byte("{")) {
			text = append(text, ',')
		}
		text = append(text, bytes.TrimSuffix(bytes.TrimPrefix(field, []byte("{")), []byte("\n}"))...)
	}
	_, err := h.printer.data().Write(append(text, "\n}\n"...))
	return err
}

// documentOf returns the document of an answer, with the field config if there is something to say there.
func (p *Printer) documentOf(a Answer) any {
	if p.Config == nil {
		return documentOf(a)
	}
	return &withConfig{documentOf(a), p.Config}
}

// withConfig is a document with one more field.
type withConfig struct {
	document any
	config   any
}

// MarshalJSON implements [json.Marshaler].
func (d *withConfig) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(d.document)
	field, fieldErr := json.Marshal(d.config)
	if err != nil || fieldErr != nil {
		return nil, errors.Join(err, fieldErr)
	}
	return fmt.Appendf(bytes.TrimSuffix(text, []byte("}")), `,"config":%s}`, field), nil
}

// Error prints an error for programs as its own document: JSON or a JSON line. CSV, tables and what a filter makes
// cannot contain it.
func (p *Printer) Error(e *Error) error {
	if shape := p.Format.Shape(); p.Quiet || p.Filter != nil || shape != AsDocument && shape != AsLines {
		return nil
	}
	return p.write(e.Document())
}
