// Package output prints answers: as a table for people, and as JSON, JSON lines or
// CSV for programs.
package output

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/texts"
)

// SchemaVersion is the version of the JSON documents. Fields may be added, but never renamed.
const SchemaVersion = 1

// Format is one of [Formats]; it is a flag's value. Empty means "table".
type Format string

// Formats returns the names of the formats that every answer has. Each has a [Format.Shape].
func Formats() []string { return []string{"table", "json", "jsonl", "csv"} }

// Shape is what a format makes of an answer.
type Shape int

const (
	// AsTable is text for people.
	AsTable Shape = iota
	// AsDocument is one document, which can contain an error.
	AsDocument
	// AsLines are documents one after the other, of which the last can be an error.
	AsLines
	// AsRows are records of texts, the header first. They cannot contain an error.
	AsRows
)

// Shape returns the shape of the format.
func (f Format) Shape() Shape {
	switch f {
	case "json":
		return AsDocument
	case "jsonl":
		return AsLines
	case "csv":
		return AsRows
	default:
		return AsTable
	}
}

// Set implements pflag.Value.
func (f *Format) Set(name string) error {
	if !slices.Contains(Formats(), name) {
		err := fmt.Errorf("the format is one of %s", strings.Join(Formats(), ", "))
		if near := texts.Nearest(strings.ToLower(name), Formats(), 1); near != "" {
			return fmt.Errorf("%w; did you mean %s?", err, near)
		}
		return err
	}
	*f = Format(name)
	return nil
}

// String implements pflag.Value.
func (f *Format) String() string {
	if *f == "" {
		return "table"
	}
	return string(*f)
}

// Type implements pflag.Value.
func (f *Format) Type() string { return "format" }

// Answer is the answer of a command, in every form. Only the form to print is called. An answer is its own JSON
// document, unless it has a method Document() any. With a method Items() any, which returns a slice, JSON lines are its
// elements, and CSV is their [Rows]; without, they are those of the document alone. Methods Lines() []any and
// Records() [][]string go before both.
type Answer interface {
	// Print writes the answer for people.
	Print(p *Printer)
}

// documentOf returns the JSON document of an answer.
func documentOf(a Answer) any {
	if other, has := a.(interface{ Document() any }); has {
		return other.Document()
	}
	return a
}

// itemsOf returns a slice of what an answer has in JSON lines and CSV.
func itemsOf(a Answer) reflect.Value {
	if list, has := a.(interface{ Items() any }); has {
		return reflect.ValueOf(list.Items())
	}
	document := reflect.ValueOf(documentOf(a))
	return reflect.Append(reflect.MakeSlice(reflect.SliceOf(document.Type()), 0, 1), document)
}

// recordsOf returns the rows of CSV, the header first.
func recordsOf(a Answer) [][]string {
	if own, has := a.(interface{ Records() [][]string }); has {
		return own.Records()
	}
	return Rows(itemsOf(a).Interface())
}

// linesOf returns the documents of an answer in JSON lines.
func linesOf(a Answer) (lines []any) {
	if own, has := a.(interface{ Lines() []any }); has {
		return own.Lines()
	}
	for _, item := range itemsOf(a).Seq2() {
		lines = append(lines, item.Addr().Interface())
	}
	return lines
}

// Printer knows where answers go and how they are shown.
type Printer struct {
	Out io.Writer // for people
	// Data is for programs: JSON and CSV. The default is Out.
	Data   io.Writer
	Format Format
	Filter Filter // prints the document in place of Format, if not nil
	Quiet  bool   // print nothing
	Color  bool
	Width  int // columns of the terminal, 0 if there is none
	// Config says by which configuration the answer is: a field of its document, and a line for people. Nil says
	// nothing.
	Config fmt.Stringer
}

// Answer prints a in the chosen format.
func (p *Printer) Answer(a Answer) error {
	if p.Quiet {
		return nil
	}
	if p.Filter != nil {
		return p.filtered(&withFields{documentOf(a), p.Config, nil})
	}
	switch p.Format.Shape() {
	case AsDocument:
		return p.write(&withFields{documentOf(a), p.Config, nil})
	case AsLines:
		for _, line := range linesOf(a) {
			if err := p.write(line); err != nil {
				return err
			}
		}
		return nil
	case AsRows:
		w := csv.NewWriter(p.data())
		for _, record := range recordsOf(a) {
			if err := w.Write(record); err != nil {
				return err
			}
		}
		w.Flush()
		return w.Error()
	case AsTable:
	}
	var b bytes.Buffer
	buffered := *p
	buffered.Out = &b
	a.Print(&buffered)
	if p.Config != nil {
		buffered.Line("by %s", p.Config)
	}
	_, err := p.Out.Write(b.Bytes())
	return err
}

// data returns the destination of formats for programs.
func (p *Printer) data() io.Writer {
	if p.Data != nil {
		return p.Data
	}
	return p.Out
}

// write writes a document as JSON, on one line or several.
func (p *Printer) write(document any) error {
	form := JSON
	if p.Format == "json" {
		form = indentedJSON
	}
	text, err := form(document)
	if err == nil {
		_, err = p.data().Write(append(text, '\n'))
	}
	return err
}

// Line writes one line for people. It keeps styles, and escapes everything else that is not visible.
func (p *Printer) Line(format string, args ...any) {
	fmt.Fprintln(p.Out, oneLine(fmt.Sprintf(format, args...), p.Color))
}

// Milliseconds returns d in whole milliseconds, rounded up, as in all JSON.
func Milliseconds(d time.Duration) int64 {
	whole := int64(d / time.Millisecond)
	// no addition before the division, since other limiters can keep keys for any time
	if d > 0 && d%time.Millisecond > 0 {
		whole++
	}
	return whole
}

// UTC converts an instant for JSON.
func UTC(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Minute writes an instant for people, to the minute, by the clocks of its zone.
func Minute(t time.Time) string { return t.Format("2006-01-02 15:04 Z07:00") }

// Duration writes d for people, with a useful precision, and never too short.
func Duration(d time.Duration) string {
	precision := time.Millisecond
	switch {
	case d >= time.Hour:
		precision = time.Minute
	case d >= time.Minute:
		precision = time.Second
	case d >= time.Second:
		precision = 100 * time.Millisecond
	}
	if rest := d % precision; rest > 0 && d <= math.MaxInt64-precision { // 292 years stay unchanged
		d += precision - rest
	}
	text := ""
	if days := d / (24 * time.Hour); days > 0 {
		text = fmt.Sprintf("%dd", days)
		if d %= 24 * time.Hour; d == 0 {
			return text
		}
	}
	short := d.String()
	if strings.HasSuffix(short, "m0s") {
		short = strings.TrimSuffix(short, "0s")
	}
	if strings.HasSuffix(short, "h0m") {
		short = strings.TrimSuffix(short, "0m")
	}
	return text + short
}

// Bytes writes a number of bytes for people, with three digits: "136 B", "1.92 kB".
func Bytes(n int64) string {
	const units = "kMGTP"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), -1
	for value >= 999.5 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	return fmt.Sprintf("%.3g %cB", value, units[unit])
}

// Thousands writes a whole number with separators: "12,345".
func Thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Decimals writes a number with at most that many digits after the point: "1.5", "2".
func Decimals(f float64, digits int) string {
	text := strconv.FormatFloat(f, 'f', digits, 64)
	if digits == 0 {
		return text
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Streams reports whether the format consists of separate documents, which need not be in memory together.
func (p *Printer) Streams() bool { return p.Format.Shape() == AsLines || p.Format.Shape() == AsRows }

// Stream prints documents of one type one by one, in a format for which [Printer.Streams] is true.
type Stream struct {
	out     *bufio.Writer
	csv     *csv.Writer // nil for JSON
	columns columns
}

// Stream begins a stream of documents like first, with the header of CSV. The rows are those of [Rows].
func (p *Printer) Stream(first any) (*Stream, error) {
	s := &Stream{out: bufio.NewWriterSize(p.data(), 1<<16)}
	if p.Format.Shape() != AsRows {
		return s, nil
	}
	s.csv, s.columns = csv.NewWriter(s.out), columnsOf(reflect.TypeOf(first))
	return s, s.csv.Write(s.columns.header())
}

// Write prints one document.
func (s *Stream) Write(document any) error {
	if s.csv != nil {
		return s.csv.Write(s.columns.row(reflect.ValueOf(document)))
	}
	text, err := JSON(document)
	if err != nil {
		return err
	}
	_, err = s.out.Write(append(text, '\n'))
	return err
}

// Flush writes the buffered rest.
func (s *Stream) Flush() error {
	if s.csv != nil {
		s.csv.Flush()
		if err := s.csv.Error(); err != nil {
			return err
		}
	}
	return s.out.Flush()
}
