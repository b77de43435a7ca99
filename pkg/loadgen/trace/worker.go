package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// record is the content of a line.
type record struct {
	at store.Instant
	// cost is the text of the cost, nil if there is none.
	cost []byte
	// values are the values of the plan's fields, nil if missing. They may point into the line.
	values [][]byte
	// encoded has the values in one text.
	encoded []byte
}

// parser reads the lines of one format, for one goroutine.
type parser interface {
	// parse sets r, or returns what is wrong with the line.
	parse(line []byte, r *record) (reason string)
}

// parsed is the result of a chunk.
type parsed struct {
	failed   error     // the other fields are then empty
	requests []Request // without subjects
	subjects []byte    // their texts, one after the other
	ends     []int     // of each request's
	bytes    int       // of the chunk
	bad      int64
	firstBad []BadLine // numbered within the chunk
	lines    int64
	blank    int64
	costs    int64 // lines with a cost
}

var parsedPool = sync.Pool{New: func() any { return new(parsed) }}

// release keeps the memory of p for another chunk.
func (p *parsed) release() {
	*p = parsed{requests: p.requests[:0], subjects: p.subjects[:0], ends: p.ends[:0]}
	parsedPool.Put(p)
}

// worker parses chunks.
type worker struct {
	plan   *plan
	parser parser
	record record
}

func newWorker(p *plan) *worker {
	return &worker{plan: p, parser: p.newParser(), record: record{values: make([][]byte, len(p.wanted))}}
}

// parse reads a chunk, whose buffer can be reused afterwards.
func (w *worker) parse(c *chunk) *parsed {
	p := parsedPool.Get().(*parsed)
	p.bytes = len(c.data)
	if c.tooLong {
		p.lines = 1
		p.addBad(c.data, "it is "+tooLong)
	} else {
		for rest := c.data; len(rest) > 0; {
			line := rest
			if end := bytes.IndexByte(rest, '\n'); end >= 0 {
				line, rest = rest[:end], rest[end+1:]
			} else {
				rest = nil
			}
			w.line(p, line)
		}
	}
	buffers.Put(c.buffer)
	return p
}

func (w *worker) line(p *parsed, line []byte) {
	if len(line) > 0 && line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	if len(line) == 0 || line[0] <= ' ' && len(bytes.TrimSpace(line)) == 0 {
		p.blank++
		return
	}
	p.lines++
	r := &w.record
	r.cost = nil
	clear(r.values)
	reason := w.parser.parse(line, r)
	cost := uint32(1)
	if reason == "" && r.cost != nil {
		p.costs++
		if cost = parseCost(r.cost); cost == 0 {
			reason = fmt.Sprintf("its %s is %q, which is not a whole number from 1 to %d", w.plan.cost, excerpt(r.cost), store.MaxCount)
		}
	}
	if reason == "" {
		reason = w.plan.encode(r)
	}
	if reason != "" {
		p.addBad(line, reason)
		return
	}
	p.subjects = append(p.subjects, r.encoded...)
	p.requests, p.ends = append(p.requests, Request{At: r.at, Cost: cost}), append(p.ends, len(p.subjects))
}

func (p *parsed) addBad(line []byte, reason string) {
	p.bad++
	if len(p.firstBad) < keptBadLines {
		p.firstBad = append(p.firstBad, BadLine{p.lines + p.blank, excerpt(line), reason})
	}
}

// hasNo is why a line without a field cannot be read.
func hasNo(field string) string { return "it has no " + field }

// encode puts the record's values into one text: a single value as it is, and several values each after its length.
func (p *plan) encode(r *record) (reason string) {
	for i, value := range r.values {
		if len(value) == 0 && !p.wanted[i].Optional {
			return hasNo(p.wanted[i].Name)
		}
		if len(value) > maxValue {
			return fmt.Sprintf("its %s is longer than %d bytes", p.wanted[i].Name, maxValue)
		}
	}
	if len(r.values) == 1 {
		r.encoded = r.values[0]
		return ""
	}
	r.encoded = r.encoded[:0]
	for _, value := range r.values {
		r.encoded = binary.BigEndian.AppendUint16(r.encoded, uint16(len(value)))
		r.encoded = append(r.encoded, value...)
	}
	return ""
}

// parseCost reads a cost. It returns 0 for a text that is not a cost.
func parseCost(text []byte) uint32 {
	var n uint64
	for _, c := range text {
		if c < '0' || c > '9' || n > store.MaxCount {
			return 0
		}
		n = 10*n + uint64(c-'0')
	}
	if n > store.MaxCount {
		return 0
	}
	return uint32(n)
}
