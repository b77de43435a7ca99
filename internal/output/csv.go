package output

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/texts"
)

// csvWriter writes all CSV.
type csvWriter struct {
	*csv.Writer
	begun  *int // the number of cells that begin like formulas
	hidden *int // the number of cells that are not only text
	names  *nameColumn
}

// nameColumn is what a writer of [Names] writes: one column, and the same name once in a row.
type nameColumn struct {
	out   *bufio.Writer // that of the CSV writer
	index int           // -1 before the header
	last  string
}

// nameHeaders are the headers of columns with names, the best first.
var nameHeaders = []string{"key", "value", "id", "name"}

func (p *Printer) newCSV(out io.Writer) *csvWriter {
	buffered := bufio.NewWriter(out) // which csv.NewWriter takes as it is
	w := &csvWriter{csv.NewWriter(buffered), &p.formulaCells, &p.hiddenCells, nil}
	if p.Format == Names {
		w.names = &nameColumn{out: buffered, index: -1}
	}
	return w
}

// FormulaCells returns how many printed cells a spreadsheet would take for formulas.
func (p *Printer) FormulaCells() int { return p.formulaCells }

// HiddenCells returns how many printed cells contain control characters, or are not UTF-8.
func (p *Printer) HiddenCells() int { return p.hiddenCells }

// isText reports whether a text has only characters that a terminal shows unchanged, and blanks.
func isText(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c >= ' ' && c < 0x7f, c == '\t', c == '\n', c == '\r':
		case c < utf8.RuneSelf:
			return false
		default:
			return utf8.ValidString(text) && strings.IndexFunc(text[i:], isHidden) < 0
		}
	}
	return true
}

func isHidden(r rune) bool { return !strings.ContainsRune("\t\n\r", r) && !texts.IsVisible(r) }

// writeName writes the name of a row, unless it is the header or the row before has the same.
func (w *csvWriter) writeName(record []string) error {
	if w.names.index < 0 {
		for _, header := range nameHeaders {
			if w.names.index = slices.Index(record, header); w.names.index >= 0 {
				return nil
			}
		}
		return errors.New("the answer has no names")
	}
	name := record[w.names.index]
	if name == w.names.last {
		return nil
	}
	if w.names.last = name; !isText(name) {
		*w.hidden++
	}
	if strings.Contains(name, "\n") { // a key of another limiter; its lines would be names of their own
		name = strconv.Quote(name)
	}
	_, err := w.names.out.WriteString(name + "\n")
	return err
}

// write writes a row.
func (w *csvWriter) write(record []string) error {
	if w.names != nil {
		return w.writeName(record)
	}
	for _, cell := range record {
		if !isText(cell) {
			*w.hidden++
		}
	}
	for _, cell := range record {
		if beginsFormula(cell) && !isNumber(cell) {
			*w.begun++
		}
	}
	return w.Write(record)
}

// beginsFormula reports whether a spreadsheet would take a text for a formula. It skips blanks before it.
func beginsFormula(text string) bool {
	text = strings.TrimLeftFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !texts.IsVisible(r) })
	return text != "" && strings.IndexAny(text, "=+-@＝＋－＠") == 0
}

// isNumber reports whether a cell is a number in our form.
func isNumber(cell string) bool {
	digits := func(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
	mantissa, exponent, exponential := strings.Cut(cell, "e")
	whole, fraction, fractional := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	return digits(whole) && (!fractional || digits(fraction)) && (!exponential || digits(strings.TrimLeft(exponent, "+-")))
}
