package output

import "bytes"

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
		held.text, err = indentedJSON(documentOf(a))
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

// Error prints an error for programs as its own document: JSON or a JSON line. CSV, tables and what a filter makes cannot
// contain it.
func (p *Printer) Error(e *Error) error {
	if shape := p.Format.Shape(); p.Quiet || p.Filter != nil || shape != AsDocument && shape != AsLines {
		return nil
	}
	return p.write(e.Document())
}
