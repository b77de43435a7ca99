package trace

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

// csvParser reads CSV records, each on one line.
type csvParser struct {
	columns []int // -1 for none
	header  int   // the number of columns of the log
	values  [][]byte
}

func newCSVParser(names, columns []string) *csvParser {
	c := &csvParser{header: len(names)}
	for _, name := range columns {
		at := -1
		if name != "" { // a column may have no name
			at = slices.Index(names, name)
		}
		c.columns = append(c.columns, at)
	}
	return c
}

// splitHeader returns the names of the columns.
func splitHeader(line []byte) (names []string, reason string) {
	values, _, reason := splitCSV(nil, line, math.MaxInt)
	for _, value := range values {
		names = append(names, string(bytes.TrimLeft(value, " \t")))
	}
	return names, reason
}

// parse implements parser.
func (c *csvParser) parse(line []byte, to [][]byte) (reason string) {
	var n int
	if c.values, n, reason = splitCSV(c.values[:0], line, c.header); reason != "" {
		return reason
	}
	if n != c.header {
		return fmt.Sprintf("it has %d values, and the header %d", n, c.header)
	}
	for i, column := range c.columns {
		if column >= 0 {
			to[i] = c.values[column]
		}
	}
	return ""
}

// splitCSV appends the values of a line, at most so many, and returns their number.
func splitCSV(values [][]byte, line []byte, most int) (_ [][]byte, n int, reason string) {
	for more := true; more; {
		var value []byte
		if len(line) > 0 && line[0] == '"' {
			if value, line, more = cutQuoted(line[1:]); !more {
				return values, n, "a value in quotes does not end on its line"
			}
			if more = len(line) > 0; more && line[0] != ',' {
				return values, n, "it is not a CSV record"
			}
			line = line[min(1, len(line)):]
		} else if value, line, more = bytes.Cut(line, []byte{','}); bytes.IndexByte(value, '"') >= 0 {
			return values, n, "it is not a CSV record"
		}
		if n++; n <= most {
			values = append(values, value)
		}
	}
	return values, n, ""
}

// cutQuoted returns the value before the quote that ends it, and what follows the quote. Two quotes stand for one.
func cutQuoted(line []byte) (value, rest []byte, ends bool) {
	value, rest, ends = bytes.Cut(line, []byte{'"'})
	value = slices.Clip(value) // so that appending does not change the line
	for ends && len(rest) > 0 && rest[0] == '"' {
		var part []byte
		part, rest, ends = bytes.Cut(rest[1:], []byte{'"'})
		value = append(append(value, '"'), part...)
	}
	return value, rest, ends
}
