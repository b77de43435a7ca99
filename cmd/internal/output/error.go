package output

import (
	"bytes"
)

// Error is an error as programs see it: in a field of the document that the answer is, or in
// a document of its own.
type Error struct {
	// Kind is one of a small set of words; Message is the line that people see.
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Document is the JSON document of an error without an answer.
func (e *Error) Document() any { return &errorOnly{SchemaVersion, e} }

// errorOnly is the document of an error without an answer.
type errorOnly struct {
	SchemaVersion int    `json:"schema_version"`
	Error         *Error `json:"error"`
}

// Pending is an answer whose document is not printed yet, because an error may have to be
// added to it. A nil Pending is no answer.
type Pending struct {
	printer *Printer
	text    []byte // JSON without its last brace, or YAML; nil if all was printed
}

// Hold prints an answer, and holds back what is one document until [Pending.End].
func (p *Printer) Hold(a Answer) (*Pending, error) {
	held := &Pending{printer: p}
	var err error
	switch {
	case p.Quiet:
	case p.Format == "json":
		held.text, err = indentedJSON(a.Document())
		held.text = bytes.TrimRight(bytes.TrimSuffix(held.text, []byte("}")), "\n")
	case p.Format == "yaml":
		held.text, err = yamlOf(a.Document())
	default:
		err = p.Answer(a)
	}
	return held, err
}

// End prints the document, with an error beside what it has unless that is nil. The lines
// of JSON end with one for the error. CSV and tables cannot hold it.
func (h *Pending) End(e *Error) error {
	if h == nil || h.printer.Quiet {
		return nil
	}
	if h.text == nil {
		if e == nil || h.printer.Format != "jsonl" {
			return nil
		}
		return h.printer.Error(e)
	}
	text := h.text
	if e != nil {
		field, err := fieldOf(h.printer.Format, e)
		if err != nil {
			return err
		}
		if h.printer.Format == "json" && !bytes.HasSuffix(text, []byte("{")) {
			text = append(text, ',')
		}
		text = append(text, field...)
	}
	if h.printer.Format == "json" {
		text = append(text, "\n}\n"...)
	}
	return h.printer.write(text, nil)
}

// fieldOf is the field of an error in a document of a format, without what is around it.
func fieldOf(format Format, e *Error) ([]byte, error) {
	document := struct {
		Error *Error `json:"error"`
	}{e}
	if format == "yaml" {
		return yamlOf(document)
	}
	text, err := indentedJSON(document)
	return bytes.TrimSuffix(bytes.TrimPrefix(text, []byte("{")), []byte("\n}")), err
}

// Error prints an error for programs, as a document of its own: JSON, a line of it, or YAML.
// CSV and tables cannot hold it.
func (p *Printer) Error(e *Error) error {
	document := e.Document()
	switch {
	case p.Quiet:
		return nil
	case p.Format == "json":
		text, err := indentedJSON(document)
		return p.write(append(text, '\n'), err)
	case p.Format == "jsonl":
		text, err := JSON(document)
		return p.write(append(text, '\n'), err)
	case p.Format == "yaml":
		return p.write(yamlOf(document))
	}
	return nil
}
