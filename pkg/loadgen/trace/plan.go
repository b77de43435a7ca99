package trace

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ErrFormat is the kind of a [store.ErrInvalid] about a log whose format its first line does not show. [Options] can say it, or
// which column is the time.
var ErrFormat = errors.New("the format of the log is not known")

// ErrNoKey is the kind of a [store.ErrInvalid] about a log that has not the field "key", which is that of the caller unless
// [Options.Key] says another.
var ErrNoKey = errors.New("the log has no field of the caller")

// kindError is an error of a kind, with words of its own.
type kindError struct {
	error
	kind error
}

func (e kindError) Unwrap() []error { return []error{e.error, e.kind} }

// defaultKey is the field of the caller in JSON and CSV.
const defaultKey = "key"

// plan says how to read the lines of one log.
type plan struct {
	format     Format
	time       string
	cost       string   // empty for none
	costGiven  bool     // by the caller, so it must exist
	keyAssumed bool     // wanted is the default field of the caller
	wanted     []Field  // that make the subject
	names      []string // of the log's fields, as far as known
	zone       *time.Location
	// nested: a field of JSON can be an object, and the time is none of the fields of the plan.
	nested bool
	nginx  *nginxFormat // nil for the known formats
}

// newPlan detects how to read the log that begins with head, and removes a header from it.
func newPlan(head *chunk, options Options) (*plan, error) {
	p := &plan{
		format: options.Format, time: options.Time, cost: options.Cost, costGiven: options.Cost != "", zone: options.Zone,
	}
	if options.Nginx != "" {
		var err error
		if p.nginx, err = newNginxFormat(options.Nginx); err != nil {
			return nil, err
		}
		p.format = Apache
	}
	timeName := options.Time
	if timeName == "" {
		timeName = "time"
	}
	if p.format == Auto {
		if p.format = detect(head, timeName); p.format == Auto {
			why := fmt.Sprintf("neither an access log nor JSON, nor a CSV header with a column %q", timeName)
			if head.tooLong {
				why = tooLong
			}
			return nil, kindError{store.Invalidf("the log's format cannot be told from its first line, %q: that is %s; say the format, "+
				"or which column is the time", excerpt(firstLine(head.data)), why), ErrFormat}
		}
	}
	keys := options.Key
	switch {
	case len(keys) > 0:
	case p.format == Apache:
		keys = []string{"ip"}
	default:
		keys = []string{defaultKey}
		p.keyAssumed = true
	}
	if p.time == "" {
		p.time = "time"
	}
	for _, name := range keys {
		p.want(Field{Name: name})
	}
	for _, field := range options.Further {
		p.want(field)
	}
	switch p.format {
	case Apache:
		if p.names = ApacheFields(); p.nginx != nil {
			p.names = p.nginx.names()
		}
		if p.time != "time" {
			return nil, store.Invalidf("the time of an access log is its field \"time\", and %q was asked for", p.time)
		}
		if p.zone != nil {
			return nil, store.Invalidf("the times of an access log name their zone, and %s was given; leave it out", p.zone)
		}
	case JSONLines:
		p.names = namesOfJSON(head)
		p.defaultCost()
		return p, nil // later lines may have other fields
	case CSV:
		if err := p.takeHeader(head); err != nil {
			return nil, err
		}
		if slices.Contains(p.names, "cost") {
			p.defaultCost()
		}
	case Auto: // detected above
	}
	for _, field := range append(p.wanted, Field{p.time, false}, Field{p.cost, !p.costGiven}) {
		switch first := slices.Index(p.names, field.Name); {
		case first < 0 && !field.Optional:
			return nil, p.unknownField(field.Name)
		case first >= 0 && field.Name != "" && slices.Contains(p.names[first+1:], field.Name): // a column may have no name
			return nil, store.Invalidf("the header has the column %q twice; name its columns apart", excerpt([]byte(field.Name)))
		}
	}
	return p, nil
}

// defaultCost uses the field "cost", unless the caller named another field.
func (p *plan) defaultCost() {
	if p.cost == "" {
		p.cost = "cost"
	}
}

// want adds a field to the subject, once.
func (p *plan) want(field Field) {
	at := slices.IndexFunc(p.wanted, func(w Field) bool { return w.Name == field.Name })
	if at < 0 {
		p.wanted = append(p.wanted, field)
		return
	}
	p.wanted[at].Optional = p.wanted[at].Optional && field.Optional
}

// fields returns the names of the fields that make a subject.
func (p *plan) fields() []string {
	names := make([]string, len(p.wanted))
	for i, w := range p.wanted {
		names[i] = w.Name
	}
	return names
}

func (p *plan) unknownField(name string) error {
	const most = 20
	shown := make([]string, min(most, len(p.names)))
	for i := range shown {
		shown[i] = excerpt([]byte(p.names[i]))
	}
	there := strings.Join(shown, ", ")
	if more := len(p.names) - most; more > 0 {
		there += fmt.Sprintf(" and %d more", more)
	}
	return p.ofKey(name, store.Invalidf("the log has no field %q; there are %s", name, there))
}

// ofKey makes err, which says that a field is missing, an ErrNoKey if the field is the assumed one of the caller.
func (p *plan) ofKey(field string, err error) error {
	if p.keyAssumed && field == defaultKey {
		return kindError{err, ErrNoKey}
	}
	return err
}

func (p *plan) newParser() parser {
	switch {
	case p.nginx != nil:
		return &nginxParser{p.nginx, p}
	case p.format == JSONLines:
		return newJSONParser(p)
	case p.format == CSV:
		return newCSVParser(p)
	default:
		return newApacheParser(p)
	}
}

// detect returns the format that the first lines look like, or Auto.
func detect(head *chunk, timeName string) Format {
	if head.tooLong {
		return Auto
	}
	if names, err := splitHeader(firstLine(head.data)); err == nil && slices.Contains(names, timeName) {
		return CSV
	}
	const most = 100 // the first of them can be bad
	apache, r := newApacheParser(new(plan)), new(record)
	n := 0
	for line := range bytes.Lines(head.data) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if n++; n > most {
			break
		}
		_, isObject := scanObject(nil, line)
		switch {
		case isObject:
			return JSONLines
		case apache.parse(line, r) == "":
			return Apache
		}
	}
	return Auto
}

// firstLine returns the first line that is not blank.
func firstLine(data []byte) []byte {
	data = bytes.TrimLeft(data, " \t\r\n")
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		data = data[:end]
	}
	return bytes.TrimRight(data, "\r")
}

// takeHeader reads the names of the columns, and blanks their line so that the other lines keep their numbers.
func (p *plan) takeHeader(head *chunk) error {
	header := firstLine(head.data)
	names, err := splitHeader(header)
	switch {
	case head.tooLong:
		return store.Invalidf("the first line, %q, is %s; a CSV header must be shorter", excerpt(header), tooLong)
	case err != nil:
		return store.Invalidf("the first line, %q, is not a CSV header; it needs the names of the columns", excerpt(header))
	}
	p.names = names
	at := bytes.Index(head.data, header)
	for i := range header {
		head.data[at+i] = ' '
	}
	return nil
}

// instant reads the time of a line, or returns what is wrong with it.
func (p *plan) instant(text []byte, r *record) (reason string) {
	at, zoned, ok := parseTime(text)
	switch {
	case ok && zoned:
	case ok && p.zone == nil:
		return fmt.Sprintf("its time, %q, has no time zone; say which one the times of the log are in", excerpt(text))
	case ok:
		leap := string(text[17:19]) == "60"
		if at, ok = inZone(at, p.zone); !ok {
			return fmt.Sprintf("its time, %q, does not exist in %s, where clocks are set forward past it", excerpt(text), p.zone)
		}
		ok = inBounds(at) && (!leap || endsDay(at))
	}
	if !ok {
		return fmt.Sprintf("its time, %q, is neither like 2015-05-17T10:05:03Z or 17/May/2015:10:05:03 +0000 nor a number of "+
			"seconds, ms, µs or ns, from 1970 to 2099", excerpt(text))
	}
	r.at = at
	return ""
}
