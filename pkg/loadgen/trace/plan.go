package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ErrOptions is the kind of a [store.ErrInvalid] about a log that other [Options] may read: its format is not known, or
// it has no field of that name.
var ErrOptions = errors.New("other options may read the log")

// optionsError is such an error.
type optionsError struct{ error }

func (e optionsError) Unwrap() []error { return []error{e.error, ErrOptions} }

// plan says how to read the lines of one log.
type plan struct {
	format    Format
	time      string
	cost      string        // empty for none
	costGiven bool          // by the caller, so it must exist
	wanted    []Field       // that make the subject
	names     []string      // of the log's fields, as far as known
	access    *accessFormat // of access logs
}

// parser reads the lines of one format, for one goroutine.
type parser interface {
	// parse sets the values of the columns that the line has, or returns what is wrong with the line. They may point
	// into the line.
	parse(line []byte, to [][]byte) (reason string)
}

// newPlan detects how to read the log that begins with head, and removes a header from it.
func newPlan(head *chunk, options Options) (p *plan, err error) {
	p = &plan{
		format: options.Format, time: cmp.Or(options.Time, "time"), cost: options.Cost, costGiven: options.Cost != "",
	}
	if options.Nginx != "" {
		p.format = Apache
	}
	if p.access, err = newAccessFormat(options.Nginx); err != nil {
		return nil, err
	}
	if p.format == Auto {
		if p.format = p.detect(head); p.format == Auto {
			why := fmt.Sprintf("neither an access log nor JSON, nor a CSV header with a column %q", p.time)
			if head.tooLong {
				why = tooLong
			}
			return nil, optionsError{
				store.Invalidf("the log's format cannot be told from its first line, %q: that is %s; "+
					"say the format, or which column is the time", excerpt(firstLine(head.data)), why)}
		}
	}
	caller := "ip"
	if p.format != Apache {
		caller = "key"
	}
	p.wanted = options.subject(Field{Name: caller})
	switch p.format {
	case Apache:
		if p.names = ApacheFields(); options.Nginx != "" {
			p.names = p.access.names()
		}
		if p.time != "time" {
			return nil, store.Invalidf("the time of an access log is its field \"time\", and %q was asked for", p.time)
		}
	case JSONLines:
		p.names, p.cost = namesOfJSON(head.data), cmp.Or(p.cost, "cost")
		return p, nil // later lines may have other fields
	default:
		if p.names, err = takeHeader(head); err != nil {
			return nil, err
		}
		if slices.Contains(p.names, "cost") {
			p.cost = cmp.Or(p.cost, "cost")
		}
	}
	for _, field := range append(p.wanted, Field{p.time, false}, Field{p.cost, !p.costGiven}) {
		switch first := slices.Index(p.names, field.Name); {
		case first < 0 && !field.Optional:
			return nil, p.unknownField(field.Name)
		// a column may have no name
		case first >= 0 && field.Name != "" && slices.Contains(p.names[first+1:], field.Name):
			return nil, store.Invalidf("the header has the column %q twice; name its columns apart",
				excerpt([]byte(field.Name)))
		}
	}
	return p, nil
}

// subject returns the fields that make a subject, each once. key is the default of the options' Key.
func (o *Options) subject(key Field) (fields []Field) {
	all := []Field{key}
	if len(o.Key) > 0 {
		all = nil
	}
	for _, name := range o.Key {
		all = append(all, Field{Name: name})
	}
	for _, field := range append(all, o.Further...) {
		if at := slices.IndexFunc(fields, func(f Field) bool { return f.Name == field.Name }); at >= 0 {
			fields[at].Optional = fields[at].Optional && field.Optional
		} else {
			fields = append(fields, field)
		}
	}
	return fields
}

// namesOfFields returns the names of fields.
func namesOfFields(fields []Field) (names []string) {
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return names
}

func (p *plan) unknownField(name string) error {
	const most = 20
	shown := make([]string, min(most, len(p.names)))
	for i := range shown {
		shown[i] = excerpt([]byte(p.names[i]))
	}
	return optionsError{store.Invalidf("the log has no field %q; there are %s", name, strings.Join(shown, ", "))}
}

// newParser returns a parser for columns of those names; an empty name is no column.
func (p *plan) newParser(columns []string, objects bool) parser {
	switch p.format {
	case JSONLines:
		return &jsonParser{columns: columns, objects: objects}
	case CSV:
		return newCSVParser(p.names, columns)
	default:
		return newAccessParser(p.access, columns)
	}
}

// detect returns the format that the first lines look like, or Auto.
func (p *plan) detect(head *chunk) Format {
	if head.tooLong {
		return Auto
	}
	if names, reason := splitHeader(firstLine(head.data)); reason == "" && slices.Contains(names, p.time) {
		return CSV
	}
	left := 100 // the first of them can be bad
	access := newAccessParser(p.access, nil)
	for line := range bytes.Lines(head.data) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if _, isObject := scanObject(nil, line); isObject {
			return JSONLines
		}
		if access.parse(line, nil) == "" {
			return Apache
		}
		if left--; left == 0 {
			break
		}
	}
	return Auto
}

// firstLine returns the first line that is not blank.
func firstLine(data []byte) []byte {
	line, _, _ := bytes.Cut(bytes.TrimLeft(data, " \t\r\n"), []byte{'\n'})
	return bytes.TrimRight(line, "\r")
}

// takeHeader returns the names of the columns, and blanks their line so that the other lines keep their numbers.
func takeHeader(head *chunk) (names []string, err error) {
	header := firstLine(head.data)
	if head.tooLong {
		return nil, store.Invalidf("the first line, %q, is %s; a CSV header must be shorter", excerpt(header), tooLong)
	}
	names, reason := splitHeader(header)
	if reason != "" {
		return nil, store.Invalidf("the first line, %q, is not a CSV header; it needs the names of the columns",
			excerpt(header))
	}
	at := bytes.Index(head.data, header)
	for i := range header {
		head.data[at+i] = ' '
	}
	return names, nil
}

// parsed is the result of a chunk.
type parsed struct {
	failed   error     // the other fields are then empty
	requests []Request // Subject is where the text of the subject ends
	subjects []byte    // their texts, one after the other
	bad      int64
	firstBad BadLine // numbered within the chunk
	lines    int64
	blank    int64
	costs    int64 // lines with a cost

	withoutZone bool // as of the [Trace]
}

// parse reads a chunk, whose buffer can be reused afterwards.
func (p *plan) parse(c *chunk) *parsed {
	defer buffers.Put(c.buffer)
	n := bytes.Count(c.data, []byte{'\n'}) + 1
	out := &parsed{requests: make([]Request, 0, n), subjects: make([]byte, 0, 16*n)}
	if c.tooLong {
		out.lines = 1
		out.addBad(c.data, "it is "+tooLong)
		return out
	}
	columns := append([]string{p.time, p.cost}, namesOfFields(p.wanted)...)
	parser, values := p.newParser(columns, false), make([][]byte, len(columns))
	var latest []byte // the time of the line before, which is often the same
	var at store.Instant
	for rest := c.data; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			end = len(rest)
		}
		line := rest[:end]
		rest = rest[min(end+1, len(rest)):]
		if end > 0 && line[end-1] == '\r' {
			line = line[:end-1]
		}
		if len(line) == 0 || line[0] <= ' ' && len(bytes.TrimSpace(line)) == 0 {
			out.blank++
			continue
		}
		out.lines++
		clear(values)
		reason := parser.parse(line, values)
		switch text := values[0]; {
		case reason != "" || len(latest) > 0 && bytes.Equal(text, latest):
		case text == nil:
			reason = hasNo(p.time)
		default:
			var zoned, ok bool
			if at, zoned, ok = parseTime(text); ok {
				latest, out.withoutZone = append(latest[:0], text...), out.withoutZone || !zoned
			} else {
				latest = latest[:0]
				reason = fmt.Sprintf(
					"its time, %q, is neither like 2015-05-17T10:05:03Z or 17/May/2015:10:05:03 +0000 nor a number of "+
						"seconds, ms, µs or ns, from 1970 to 2099", excerpt(text))
			}
		}
		cost := uint32(1)
		if text := values[1]; reason == "" && len(text) > 0 {
			out.costs++
			if cost = parseCost(text); cost == 0 {
				reason = fmt.Sprintf("its %s is %q, which is not a whole number from 1 to %d", p.cost, excerpt(text),
					store.MaxCount)
			}
		}
		before := len(out.subjects)
		if reason == "" {
			out.subjects, reason = appendSubject(out.subjects, p.wanted, values[2:])
		}
		if reason != "" {
			out.subjects = out.subjects[:before]
			out.addBad(line, reason)
			continue
		}
		out.requests = append(out.requests, Request{At: at, Subject: uint32(len(out.subjects)), Cost: cost})
	}
	return out
}

func (p *parsed) addBad(line []byte, reason string) {
	if p.bad++; p.bad == 1 {
		p.firstBad = BadLine{p.lines + p.blank, excerpt(line), reason}
	}
}

// hasNo is why a line without a field cannot be read.
func hasNo(field string) string { return "it has no " + field }

// parseCost reads a cost. It returns 0 for a text that is not a cost.
func parseCost(text []byte) uint32 {
	n, err := strconv.ParseUint(string(text), 10, 32)
	if err != nil || n > store.MaxCount {
		return 0
	}
	return uint32(n)
}
