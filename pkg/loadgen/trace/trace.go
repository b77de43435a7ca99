// Package trace reads recorded traffic: Apache's and nginx's access logs, JSON lines and CSV, plain or compressed
// by gzip. A Trace is small enough to hold ten million requests in memory, in the order of their instants.
//
// A line is a request. Lines that cannot be read are counted and left out, since a real log always has some.
package trace

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Request is one line of a log. It takes 16 bytes.
type Request struct {
	At store.Instant
	// Subject is an index into [Trace.Subjects].
	Subject uint32
	// Cost is in units, from 1 to [store.MaxCount].
	Cost uint32
}

// Trace is the requests of a log.
type Trace struct {
	Format Format
	// Fields are the names of the fields that make a subject.
	Fields []string
	// Requests are in the order of their instants; equal ones are in the order of the log.
	Requests []Request
	// Subjects are the distinct values of Fields, in the order of their first line. A field that is missing in a
	// line is "".
	Subjects *Subjects
	// Lines is the number of lines, without blank ones and a header.
	Lines int64
	// Bad is the number of lines that could not be read, and FirstBad the first of them.
	Bad      int64
	FirstBad BadLine
	// OutOfOrder is the number of requests that came after one with a later instant.
	OutOfOrder int64
	// WithoutZone: the time of some line named no zone, and was taken as one of UTC.
	WithoutZone bool
}

// BadLine is a line that could not be read.
type BadLine struct {
	Number  int64  // of the line, from 1
	Excerpt string // of its beginning
	Reason  string
}

// maxValue is the most bytes of a value, as in the keys of stores.
const maxValue = store.MaxSubjectLength

// Options say how to read a log.
type Options struct {
	// Format is the log's format; [Auto] detects it. Nginx, if set, is its log_format in nginx's own words, in place of
	// a Format: its variables are fields by their names, or by those of [ApacheFields].
	Format Format
	Nginx  string
	// Time, Key and Cost name the fields with the time, the subject and the cost of a request. For JSON and CSV the
	// defaults are "time", "key" and "cost", and a line without a cost takes one unit. An access log has a fixed
	// time, the default key is "ip", and each line takes one unit unless Cost names a field.
	Time, Cost string
	Key        []string
	// Further are more fields of the subject.
	Further []Field
}

// Field is a field of the subject.
type Field struct {
	Name string
	// Optional: a line can lack it. Otherwise such a line is bad.
	Optional bool
}

// Format is the format of a log.
type Format uint8

const (
	// Auto detects the format from the log's first lines.
	Auto Format = iota
	// Apache is the common and the combined log format of Apache and nginx. Its fields are [ApacheFields].
	Apache
	// JSONLines has an object in each line. A field is named by its path, such as "request.client.ip".
	JSONLines
	// CSV has the names of its fields in the first line, and a record in each of the others: a value cannot span lines.
	CSV
)

var formatNames = [...]string{Auto: "auto", Apache: "apache", JSONLines: "jsonl", CSV: "csv"}

// String returns the format's name, such as "apache".
func (f Format) String() string { return formatNames[f] }

// FormatNames returns the names that [ParseFormat] knows.
func FormatNames() []string { return formatNames[:] }

// ParseFormat reads a format's name. An error is a [store.ErrInvalid].
func ParseFormat(name string) (Format, error) {
	for f, known := range formatNames {
		if name == known {
			return Format(f), nil
		}
	}
	return 0, store.Invalidf("unknown log format %q; it is one of %s", name, strings.Join(formatNames[:], ", "))
}

// Read reads a log to its end. If the log as a whole is wrong, so that there is no Trace, the error is a
// [store.ErrInvalid]. It returns an error of in unchanged. When ctx ends, Read returns at once; a call of in's Read
// can then still wait in the background.
func Read(ctx context.Context, in io.Reader, options Options) (*Trace, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &merger{trace: &Trace{Subjects: new(Subjects)}}
	read := make(chan error, 1)
	queue := make(chan chan *parsed, min(8, runtime.GOMAXPROCS(0)))
	// Reading can block for ever, on a terminal or a pipe.
	panics.Go(func() error { return m.produce(ctx, in, options, queue) }, func(err error) {
		read <- err
		close(queue)
	})
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case chunk, more := <-queue:
			if !more {
				if err := <-read; err != nil {
					return nil, err
				}
				return m.trace, m.finish()
			}
			p := <-chunk
			if p.failed != nil {
				return nil, p.failed
			}
			m.add(p)
		}
	}
}

// merger merges the parsed chunks, in the order of the log.
type merger struct {
	trace  *Trace
	plan   *plan
	chunks *chunker
	// requests are those of each chunk.
	requests [][]Request
	latest   store.Instant
	before   int64 // lines in the chunks before
	costs    int64
}

// produce cuts the log into chunks, and queues them in order, each as soon as its parsing has begun.
func (m *merger) produce(ctx context.Context, in io.Reader, options Options, queue chan<- chan *parsed) (err error) {
	if m.chunks, err = newChunker(in); err != nil {
		return err
	}
	c, err := m.chunks.next()
	switch {
	case err != nil:
		return err
	case c == nil || len(bytes.TrimSpace(c.data)) == 0:
		return store.Invalidf("the log is empty; it needs a line for each request")
	}
	if m.plan, err = newPlan(c, options); err != nil {
		return err
	}
	m.trace.Format, m.trace.Fields = m.plan.format, namesOfFields(m.plan.wanted)
	m.trace.Subjects.fields = len(m.trace.Fields)
	for c != nil {
		whole, out := c, make(chan *parsed, 1)
		var p *parsed
		select {
		case queue <- out:
		case <-ctx.Done():
			return ctx.Err()
		}
		panics.Go(func() error { p = m.plan.parse(whole); return nil }, func(panicked error) {
			if panicked != nil {
				p = &parsed{failed: panicked}
			}
			out <- p
		})
		if c, err = m.chunks.next(); err != nil {
			return err
		}
	}
	return nil
}

func (m *merger) add(p *parsed) {
	t := m.trace
	begin := uint32(0)
	for i := range p.requests {
		r := &p.requests[i]
		if r.At < m.latest {
			t.OutOfOrder++
		}
		m.latest = max(m.latest, r.At)
		end := r.Subject
		r.Subject, begin = t.Subjects.number(p.subjects[begin:end]), end
	}
	m.requests = append(m.requests, p.requests)
	if t.Bad == 0 && p.bad > 0 {
		t.FirstBad = p.firstBad
		t.FirstBad.Number += m.before
	}
	t.WithoutZone = t.WithoutZone || p.withoutZone
	t.Bad += p.bad
	t.Lines += p.lines
	m.before += p.lines + p.blank
	m.costs += p.costs
}

// finish checks the log as a whole.
func (m *merger) finish() error {
	t := m.trace
	t.Requests = slices.Concat(m.requests...)
	switch {
	case t.Lines == 0:
		return store.Invalidf("the log has a header and no lines; it needs one for each request")
	case len(t.Requests) == 0:
		return m.plan.explainNothing(t)
	case m.plan.costGiven && m.costs == 0:
		return m.plan.unknownField(m.plan.cost)
	}
	if t.OutOfOrder > 0 {
		slices.SortStableFunc(t.Requests, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	}
	return nil
}

// explainNothing is the error about a log without a readable line.
func (p *plan) explainNothing(t *Trace) error {
	first, reason := t.FirstBad, t.FirstBad.Reason
	if p.format == JSONLines && len(p.names) > 0 {
		reason += fmt.Sprintf(" (there are %s)", strings.Join(p.names, ", "))
	}
	format := p.format.String()
	if p.access.must == len(p.access.variables) {
		format = "the format given"
	}
	return optionsError{store.Invalidf("no line of the log can be read as %s; line %d, %q: %s", format, first.Number,
		first.Excerpt,
		reason)}
}
