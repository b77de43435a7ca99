// Package trace reads recorded traffic: Apache's and nginx's access logs, JSON lines and CSV, plain or compressed
// by gzip. A Trace is small enough to hold ten million requests in memory, in the order of their instants.
//
// A line is a request. Lines that cannot be read are counted and left out, since a real log always has some.
package trace

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

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
	// Bad is the number of lines that could not be read, and FirstBad the first few.
	Bad      int64
	FirstBad []BadLine
	// OutOfOrder is the number of requests that came after one with a later instant.
	OutOfOrder int64
	// Damage says why the log ends early, such as a compressed log that was cut off; empty if it does not. An
	// incomplete last line is then left out.
	Damage string
}

// BadLine is a line that could not be read.
type BadLine struct {
	Number  int64  // of the line, from 1
	Excerpt string // of its beginning
	Reason  string
}

const (
	keptBadLines = 5
	// maxValue is the most bytes of a value, as in the keys of stores.
	maxValue = store.MaxSubjectLength
)

// Options say how to read a log.
type Options struct {
	// Format is the log's format; [Auto] detects it. Nginx, if set, is its log_format in nginx's own words, in place of a Format:
	// its variables are fields by their names, or by those of [ApacheFields].
	Format Format
	Nginx  string
	// Time, Key and Cost name the fields with the time, the subject and the cost of a request. For JSON and CSV the
	// defaults are "time", "key" and "cost", and a line without a cost takes one unit. An access log has a fixed
	// time, the default key is "ip", and each line takes one unit unless Cost names a field.
	Time, Cost string
	Key        []string
	// Further are more fields of the subject.
	Further []Field
	// Zone is the zone of times that do not name theirs; nil if such times cannot be read. It is not for access logs,
	// whose times have one.
	Zone *time.Location
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
	// Apache is the common and the combined log format of Apache and nginx. Its
	// fields are [ApacheFields].
	Apache
	// JSONLines has an object in each line. A field is named by its path, such as "request.client.ip".
	JSONLines
	// CSV has the names of its fields in the first line, and a record in each of the others: a value cannot span
	// lines.
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
	t := &Trace{Subjects: new(Subjects)}
	m := &merger{trace: t}
	read := make(chan error, 1)
	queue := make(chan *chunk, 2*workers())
	// Reading can block for ever, on a terminal or a pipe.
	panics.Go(func() error { return produce(ctx, in, options, m, queue) }, func(err error) {
		read <- err
		close(queue)
	})
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case c, more := <-queue:
			if !more {
				if err := <-read; err != nil {
					return nil, err
				}
				return t, m.finish()
			}
			select {
			case p := <-c.parsed:
				if p.failed != nil {
					return nil, p.failed
				}
				m.add(p)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

func workers() int { return min(8, runtime.GOMAXPROCS(0)) }

// produce cuts the log into chunks, lets workers parse them, and queues them in order.
func produce(ctx context.Context, in io.Reader, options Options, m *merger, queue chan<- *chunk) error {
	chunks, err := newChunker(in)
	if err != nil {
		return err
	}
	head, err := chunks.next()
	for err == nil && head != nil && head.isBlank() {
		m.skipped += head.countLines()
		head, err = chunks.next()
	}
	if err != nil {
		return err
	}
	m.chunks = chunks
	switch {
	case head == nil && chunks.damage != "":
		return store.Invalidf("the log cannot be read: %s", chunks.damage)
	case head == nil:
		return store.Invalidf("the log is empty; it needs a line for each request")
	}
	plan, err := newPlan(head, options)
	if err != nil {
		return err
	}
	m.plan, m.trace.Format, m.trace.Fields = plan, plan.format, plan.fields()
	m.trace.Subjects.fields = len(m.trace.Fields)
	jobs := make(chan *chunk)
	var parsing panics.Group
	defer parsing.Wait() // cannot panic: a panic in a chunk is part of its result
	defer close(jobs)
	for range workers() {
		w := newWorker(plan)
		parsing.Go(func() {
			for c := range jobs {
				var p *parsed
				if err := panics.Call(func() error { p = w.parse(c); return nil }); err != nil {
					p = &parsed{failed: err}
				}
				c.parsed <- p
			}
		})
	}
	for c := head; c != nil; {
		select {
		case queue <- c:
		case <-ctx.Done():
			return ctx.Err()
		}
		jobs <- c // some worker always takes it
		if c, err = chunks.next(); err != nil {
			return err
		}
	}
	return nil
}

// merger merges the results of the workers, in the order of the log.
type merger struct {
	trace   *Trace
	plan    *plan
	chunks  *chunker
	latest  store.Instant
	skipped int64 // lines that count only for the line numbers of others
	costs   int64
}

// mostReserved bounds the room that is made before any request is known, since a file can be far longer than what it
// holds.
const mostReserved = 1 << 25 // requests

func (m *merger) add(p *parsed) {
	t := m.trace
	if t.Requests == nil && p.bytes > 0 { // room for as many as the whole log probably has
		const spare = 1.02 // lines are not all of the same length
		perByte := float64(len(p.requests)) / float64(p.bytes)
		t.Requests = make([]Request, 0, int(min(mostReserved, spare*perByte*float64(m.chunks.size))))
	}
	begin := 0
	for i, r := range p.requests {
		if r.At < m.latest {
			t.OutOfOrder++
		}
		m.latest = max(m.latest, r.At)
		r.Subject, begin = t.Subjects.number(p.subjects[begin:p.ends[i]]), p.ends[i]
		t.Requests = append(t.Requests, r)
	}
	for _, bad := range p.firstBad {
		if len(t.FirstBad) < keptBadLines {
			bad.Number += m.skipped
			t.FirstBad = append(t.FirstBad, bad)
		}
	}
	t.Bad += p.bad
	t.Lines += p.lines
	m.skipped += p.lines + p.blank
	m.costs += p.costs
	p.release()
}

// finish checks the log as a whole.
func (m *merger) finish() error {
	t := m.trace
	t.Damage = m.chunks.damage
	switch {
	case t.Lines == 0 && t.Damage != "":
		return store.Invalidf("the log cannot be read: %s", t.Damage)
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
	first := t.FirstBad[0]
	reason := first.Reason
	if p.format == JSONLines && len(p.names) > 0 {
		reason += fmt.Sprintf(" (there are %s)", strings.Join(p.names, ", "))
	}
	format := p.format.String()
	if p.nginx != nil {
		format = "the format given"
	}
	err := store.Invalidf("no line of the log can be read as %s; line %d, %q: %s", format, first.Number, first.Excerpt, reason)
	if first.Reason == hasNo(defaultKey) {
		return p.ofKey(defaultKey, err)
	}
	return err
}
