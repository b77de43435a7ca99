package trace

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
)

// csvParser reads CSV records, each on one line.
type csvParser struct {
	plan       *plan
	time, cost int // columns; -1 for none
	wanted     []int
	columns    int
	values     [][]byte
}

func newCSVParser(p *plan) *csvParser {
	c := &csvParser{plan: p, time: slices.Index(p.names, p.time), cost: -1, columns: len(p.names)}
	if p.cost != "" { // a column may have no name
		c.cost = slices.Index(p.names, p.cost)
	}
	for _, w := range p.wanted {
		c.wanted = append(c.wanted, slices.Index(p.names, w.Name))
	}
	return c
}

// splitHeader returns the names of the columns.
func splitHeader(line []byte) ([]string, error) {
	r := csv.NewReader(bytes.NewReader(line))
	r.TrimLeadingSpace = true
	return r.Read()
}

// parse implements parser.
func (c *csvParser) parse(line []byte, r *record) (reason string) {
	c.values = c.values[:0]
	n := 0
	if bytes.IndexByte(line, '"') < 0 {
		n = c.split(line)
	} else if c.values, reason = splitRecord(c.values, line); reason != "" {
		return reason
	} else {
		n = len(c.values)
	}
	if n != c.columns {
		return fmt.Sprintf("it has %d values, and the header %d", n, c.columns)
	}
	if !c.plan.nested {
		if reason = c.plan.instant(c.values[c.time], r); reason != "" {
			return reason
		}
	}
	if c.cost >= 0 && len(c.values[c.cost]) > 0 {
		r.cost = c.values[c.cost]
	}
	for i, column := range c.wanted {
		if column >= 0 {
			r.values[i] = c.values[column]
		}
	}
	return ""
}

// split splits a line without quotes at its commas, and returns the number of its values. A line of commas allocates nothing for
// those that are too many.
func (c *csvParser) split(line []byte) (n int) {
	for {
		end := bytes.IndexByte(line, ',')
		value := line
		if end >= 0 {
			value = line[:end]
		}
		if n++; n <= c.columns {
			c.values = append(c.values, value)
		}
		if end < 0 {
			return n
		}
		line = line[end+1:]
	}
}

// splitRecord appends the values of a line that has quotes.
func splitRecord(values [][]byte, line []byte) (_ [][]byte, reason string) {
	texts, err := csv.NewReader(bytes.NewReader(line)).Read()
	var parse *csv.ParseError
	switch {
	case errors.As(err, &parse) && errors.Is(err, csv.ErrQuote) && bytes.Count(line, []byte{'"'})%2 == 1:
		return values, "a value in quotes does not end on its line"
	case errors.As(err, &parse):
		return values, "it is not a CSV record: " + parse.Err.Error()
	case err != nil:
		return values, "it is not a CSV record: " + err.Error()
	}
	for _, text := range texts {
		values = append(values, []byte(text))
	}
	return values, ""
}
