package output

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/texts"
)

// Formulas says how to write CSV cells that a spreadsheet would take for a formula: one of [FormulaNames]; it is a
// flag's value. Empty means "keep".
type Formulas string

const (
	keepFormulas   Formulas = "keep"   // cells stay unchanged
	escapeFormulas Formulas = "escape" // a ' before such a cell makes it text
)

// FormulaNames returns the values of [Formulas].
func FormulaNames() []string { return []string{string(keepFormulas), string(escapeFormulas)} }

// Set implements pflag.Value.
func (f *Formulas) Set(name string) error {
	if !slices.Contains(FormulaNames(), name) {
		return fmt.Errorf("it is one of %s", strings.Join(FormulaNames(), ", "))
	}
	*f = Formulas(name)
	return nil
}

// String implements pflag.Value.
func (f *Formulas) String() string {
	if *f == "" {
		return string(keepFormulas)
	}
	return string(*f)
}

// Type implements pflag.Value.
func (f *Formulas) Type() string { return "formulas" }

// csvWriter writes all CSV.
type csvWriter struct {
	*csv.Writer
	formulas Formulas
	begun    *int // the number of cells that begin like formulas
	hidden   *int // the number of cells that are not only text
	names    *nameColumn
}

// nameColumn is what a writer of [Names] writes: one column, and the same name once in a row.
type nameColumn struct {
	index int // -1 before the header
	last  string
}

// nameHeaders are the headers of columns with names, the best first.
var nameHeaders = []string{"key", "value", "id", "name"}

func (p *Printer) newCSV(out io.Writer) *csvWriter {
	w := &csvWriter{csv.NewWriter(out), p.Formulas, &p.formulaCells, &p.hiddenCells, nil}
	if p.Format == Names {
		w.names = &nameColumn{index: -1}
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
	return w.Write([]string{name})
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
	if w.formulas == escapeFormulas {
		escaped := make([]string, len(record))
		for i, cell := range record {
			escaped[i] = escapeFormula(cell)
		}
		return w.Write(escaped)
	}
	for _, cell := range record {
		if begin := formulaBegin(cell); begin != 0 && begin != '\'' && !isNumber(cell) {
			*w.begun++
		}
	}
	return w.Write(record)
}

const (
	// formulaMarks begin a formula in some programs; the ' that prevents that is included, so that an added one can
	// be distinguished from an existing one.
	formulaMarks = "=+-@＝＋－＠'"
	// cellEnds separate cells in some programs or some countries.
	cellEnds = ",;|\t\r\n"
)

// formulaBegin returns the character that makes a formula of a text in a spreadsheet, which skips blanks before it;
// 0 if there is none.
func formulaBegin(text string) rune {
	text = strings.TrimLeftFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !texts.IsVisible(r) })
	if r, _ := utf8.DecodeRuneInString(text); text != "" && strings.ContainsRune(formulaMarks, r) {
		return r
	}
	return 0
}

// escapeFormula puts a ' at the beginning of a cell if it begins a formula, and in the same way after separators
// within it. Numbers stay unchanged. To get the cell back, remove one ' at each such place.
func escapeFormula(cell string) string {
	if !strings.ContainsAny(cell, formulaMarks+cellEnds) || isNumber(cell) {
		return cell
	}
	var b strings.Builder
	if first := strings.IndexAny(cell, "\t\r\n"); first == 0 { // some programs drop these, and look at the next character
		b.WriteByte('\'')
	}
	for rest := cell; rest != ""; {
		end := strings.IndexAny(rest, cellEnds) + 1
		if end == 0 {
			end = len(rest)
		}
		if formulaBegin(rest[:end]) != 0 {
			b.WriteByte('\'')
		}
		b.WriteString(rest[:end])
		rest = rest[end:]
	}
	return b.String()
}

// isNumber reports whether a cell is a number in our form.
func isNumber(cell string) bool {
	digits := func(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
	mantissa, exponent, exponential := strings.Cut(cell, "e")
	whole, fraction, fractional := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	return digits(whole) && (!fractional || digits(fraction)) && (!exponential || digits(strings.TrimLeft(exponent, "+-")))
}
