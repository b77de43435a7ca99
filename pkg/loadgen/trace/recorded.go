package trace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Recorded is a request that a load generator sent, and its answer.
type Recorded struct {
	// Sent and Answered bound the instant of the decision, by the clock of the generator. They are as far apart as
	// the digits of its times allow: a time in whole seconds is any instant of that second.
	Sent, Answered store.Instant
	// Took is how long the answer took.
	Took time.Duration
	// Unit is what the last digit of the coarser time stands for.
	Unit time.Duration
	// Subject is an index into [Trace.Subjects].
	Subject uint32
	// Status is that of the answer, 0 if none came.
	Status int
	// Header is that of the answer, nil if the record has none.
	Header http.Header
}

// Recording says what wrote a file of recorded requests.
type Recording struct {
	// Program is vegeta, k6, or the format of a file that another program wrote.
	Program string
	// Headers says that the file has headers of answers.
	Headers bool
}

// The fields of a recorded request, as indexes into the values of its line. Those that make the subject follow.
const (
	startField = iota
	endField   // "" if it is the start and the duration, and the same for the start
	tookField  // the duration
	statusField
	headerField
	metricField
	urlField
	tagsField
	keyField
)

const (
	vegeta, k6 = "vegeta", "k6"
	// requestMetric is the metric of k6 that has a point at the end of each request.
	requestMetric = "http_req_duration"
	// mostRecorded bounds the subjects, since an audit needs a kilobyte for each.
	mostRecorded = 200_000
)

// recordFormat is a form that files of recorded requests have.
type recordFormat struct {
	program string    // "" for the name of the format
	has     [2]string // the fields by which it is known
	names   [keyField]string
	unit    time.Duration // of the duration
	prefix  string        // of the fields that make the subject
}

var recordFormats = []recordFormat{
	{k6, [2]string{"metric", "data"},
		[...]string{"", "data.time", "data.value", "data.tags.status", "", "metric", "", ""}, time.Millisecond,
		"data.tags."},
	{k6, [2]string{"metric_name", "metric_value"},
		[...]string{"", "timestamp", "metric_value", "status", "", "metric_name", "", "extra_tags"}, time.Millisecond,
		""},
	{vegeta, [2]string{"timestamp", "latency"}, [...]string{"timestamp", "", "latency", "code", "headers", "", "url",
		""}, 1, ""},
	{"", [2]string{"start", "end"}, [...]string{"start", "end", "", "status", "headers", "", "", ""}, 1, ""},
}

// recordReader reads a file of recorded requests.
type recordReader struct {
	recordFormat
	headers bool // a line had those of an answer
	parser  parser
	values  [][]byte // of the fields of a line
	key     []Field  // that make the subject
	subject []byte
}

// newRecordReader detects how to read the file that begins with head, and removes a header from it.
func newRecordReader(head *chunk, options Options) (*recordReader, error) {
	p, line := &plan{format: JSONLines}, firstLine(head.data)
	if head.tooLong {
		return nil, store.Invalidf("its first line, %q, is "+tooLong, excerpt(line))
	}
	if fields, is := scanObject(nil, line); is {
		for _, f := range fields {
			p.names = append(p.names, string(f.name))
		}
	} else {
		p.format = CSV
		p.names, _ = splitHeader(line)
	}
	has := func(name string) bool { return slices.Contains(p.names, name) }
	i := slices.IndexFunc(recordFormats, func(f recordFormat) bool { return has(f.has[0]) && has(f.has[1]) })
	if i < 0 {
		return nil, store.Invalidf("its first line, %q, is neither of `vegeta encode` (json) or `k6 --out`, nor JSON "+
			"or CSV with "+
			"start and end", excerpt(line))
	}
	r := &recordReader{recordFormat: recordFormats[i], key: options.subject(Field{"subject", true})}
	r.program = cmp.Or(r.program, p.format.String())
	if p.format == CSV {
		if _, err := takeHeader(head); err != nil {
			return nil, err
		}
	}
	columns := r.names[:]
	for _, field := range r.key {
		columns = append(columns, r.prefix+field.Name)
	}
	r.parser, r.values = p.newParser(columns, true), make([][]byte, len(columns))
	return r, nil
}

// ReadRecorded reads a file of recorded requests to its end: of `vegeta encode --to json`, of `k6 --out json` or csv,
// or JSON lines or CSV with start and end (numbers of Unix seconds, or RFC 3339), status, headers and subject. It can
// be compressed with gzip. It adds the subjects to t, and calls each with each request, which it uses again for the
// next. The subject is that of Key and Further alone: of vegeta a field of the query, or else of the header of the
// answer, and of k6 a tag.
//
// The error about a wrong line is a [store.ErrInvalid], because without the answer in it nothing would be certain.
// When ctx ends, ReadRecorded returns at once; a call of in's Read can then still wait in the background.
func ReadRecorded(ctx context.Context, in io.Reader, options Options, t *Trace,
	each func(*Recorded)) (of Recording, err error) {
	read := make(chan error, 1)
	panics.Go(func() error { return readRecorded(ctx, in, options, t, &of, each) }, func(err error) { read <- err })
	select {
	case <-ctx.Done():
		return Recording{}, ctx.Err()
	case err = <-read:
		return of, err
	}
}

func readRecorded(ctx context.Context, in io.Reader, options Options, t *Trace, of *Recording,
	each func(*Recorded)) error {
	chunks, err := newChunker(in)
	if err != nil {
		return err
	}
	var r *recordReader
	recorded := new(Recorded)
	for number := 0; ; {
		c, err := chunks.next()
		switch {
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case c == nil && r == nil:
			return store.Invalidf("it is empty")
		case c == nil:
			*of = Recording{r.program, r.headers}
			return nil
		}
		if r == nil {
			if r, err = newRecordReader(c, options); err != nil {
				return err
			}
			t.Fields = namesOfFields(r.key)
			if t.Subjects == nil {
				t.Subjects = &Subjects{fields: len(t.Fields)}
			}
		}
		for line := range bytes.Lines(c.data) {
			number++
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			isRequest, reason := false, "it is "+tooLong
			if !c.tooLong {
				isRequest, reason = r.read(line, recorded)
			}
			if reason != "" {
				return store.Invalidf("line %d, %q: %s", number, excerpt(line), reason)
			}
			if isRequest {
				recorded.Subject = t.Subjects.number(r.subject)
				each(recorded)
			}
			if t.Subjects.Len() > mostRecorded {
				return store.Invalidf("line %d: there are more than %d subjects", number, mostRecorded)
			}
		}
		buffers.Put(c.buffer)
	}
}

// read reads a line, and reports whether it is about a request.
func (r *recordReader) read(line []byte, to *Recorded) (isRequest bool, reason string) {
	v := r.values
	clear(v)
	if reason = r.parser.parse(line, v); reason != "" {
		return false, reason
	}
	if r.program == k6 && (string(v[metricField]) != requestMetric || v[endField] == nil) { // or it declares the metric
		return false, ""
	}
	*to = Recorded{}
	if reason = r.times(to); reason != "" {
		return false, reason
	}
	if status := v[statusField]; len(status) > 0 {
		n, err := strconv.ParseUint(string(status), 10, 16)
		if to.Status = int(n); err != nil || n > 999 {
			return false, fmt.Sprintf("its %s, %q, is not a status, or 0", r.names[statusField], excerpt(status))
		}
	}
	if r.names[headerField] != "" && len(v[headerField]) > 0 {
		if to.Header, r.headers = headerOf(v[headerField]); !r.headers {
			return false, "its headers are not a JSON object of texts, or of lists of texts"
		}
	}
	for i, field := range r.key {
		v[keyField+i] = r.keyOf(field.Name, v[keyField+i], to)
	}
	r.subject, reason = appendSubject(r.subject[:0], r.key, v[keyField:])
	return true, reason
}

// keyOf returns the value of a field that makes the subject. value is that of the column or the tag of its name.
func (r *recordReader) keyOf(name string, value []byte, of *Recorded) []byte {
	switch {
	case len(value) > 0:
	case r.program == k6:
		for tag := range bytes.SplitSeq(r.values[tagsField], []byte{'&'}) {
			if value, is := bytes.CutPrefix(tag, []byte(name+"=")); is {
				return value
			}
		}
	case r.program == vegeta:
		if u, err := url.Parse(string(r.values[urlField])); err == nil && u.Query().Has(name) {
			return []byte(u.Query().Get(name))
		}
		return []byte(of.Header.Get(name))
	}
	return value
}

// times reads when a request was sent and answered.
func (r *recordReader) times(to *Recorded) (reason string) {
	v := r.values
	var units [2]store.Instant
	for i, at := range []*store.Instant{&to.Sent, &to.Answered} {
		name, text := r.names[i], v[i]
		if name == "" {
			continue
		}
		var zoned, ok bool
		if *at, zoned, ok = parseTime(text); !zoned || !ok {
			return fmt.Sprintf("its %s, %q, is neither Unix seconds nor like 2015-05-17T10:05:03Z", name, excerpt(text))
		}
		unit := max(unitOf(text), time.Microsecond)
		to.Unit, units[i] = max(to.Unit, unit), store.Instant(unit/time.Microsecond)
	}
	if name := r.names[tookField]; name != "" {
		took, err := strconv.ParseFloat(string(v[tookField]), 64)
		const longest = float64(24 * time.Hour)
		if took *= float64(r.unit); err != nil || !(took >= 0 && took <= longest) {
			return fmt.Sprintf("its %s, %q, is not a duration of at most a day", name, excerpt(v[tookField]))
		}
		to.Took = time.Duration(took)
		if d := store.Instant(math.Ceil(took / float64(time.Microsecond))); r.names[startField] == "" {
			to.Sent = to.Answered - d
		} else {
			to.Answered = to.Sent + d + units[0]
		}
	} else if to.Took = to.Sent.Until(to.Answered); to.Answered < to.Sent {
		return "its end is before its start"
	} else { // the start can have been rounded up
		to.Sent -= units[0] / 2
	}
	to.Sent, to.Answered = max(0, to.Sent), to.Answered+units[1]
	return ""
}

// unitOf returns what the last digit of a time stands for.
func unitOf(text []byte) time.Duration {
	whole, fraction, _ := bytes.Cut(text, []byte{'.'})
	unit := time.Second
	if isDigits(whole) { // see parseNumber
		for digits := len(whole); digits > 11; digits -= 3 {
			unit /= 1000
		}
	}
	for _, c := range fraction {
		if c < '0' || c > '9' {
			break
		}
		unit /= 10
	}
	return unit
}

// headerOf reads a header: a JSON object of texts, or of lists of texts.
func headerOf(text []byte) (header http.Header, ok bool) {
	var fields map[string]any
	if json.Unmarshal(text, &fields) != nil {
		return nil, false
	}
	header = http.Header{}
	for name, value := range fields {
		list, isList := value.([]any)
		if !isList && value != nil {
			list = []any{value}
		}
		for _, one := range list {
			text, is := one.(string)
			if !is {
				return nil, false
			}
			header.Add(name, text)
		}
	}
	return header, true
}
