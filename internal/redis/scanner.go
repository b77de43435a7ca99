package redisserver

import (
	"bytes"
	"fmt"
	"math"
)

const (
	// mostMemory is the most bytes that the answers of one exchange may cost. It is enough for the longest record
	// (12.5 MB) and the 4 MB of others that a script returns with it, or for a Cluster in which each slot is its
	// own range, with two replicas.
	mostMemory = 22 << 20
	// valueCost is the cost of any value in addition to its bytes, and mapCost that of a map in addition to its
	// values. A client allocates 16 to 40 bytes per element for an announced list, and up to 80 per entry, which is
	// two values, for a map.
	valueCost = 32
	mapCost   = 320
	// longestLine is the longest line that does not announce its length. Servers cut the texts of their errors at a
	// few hundred bytes.
	longestLine = 64 << 10
	// deepest is the deepest nesting of lists. Redis needs about six; each level is a nested call in the client.
	deepest = 16
	// mostDigits is the most digits of a length: more do not fit an int64.
	mostDigits = 19
)

// wrong returns why a client must not read on.
func wrong(format string, args ...any) error {
	return &answerError{"its answer is not one that Redis gives: " + fmt.Sprintf(format, args...)}
}

// scanner follows a stream of RESP values, of version 2 or 3, without storing any.
type scanner struct {
	spent   int64 // the cost of the values in this exchange
	payload int64 // the remaining bytes of a text, including its line end

	kind     byte // of the current line; 0 between lines
	line     int  // bytes of it read
	last     byte // the last of them
	digits   int  // of its length, if it announces one
	length   int64
	negative bool

	depth int
	open  [deepest]int64 // the remaining values of each enclosing list
}

// scan checks the next bytes. On an error it returns how many of them are sound: those before the end of the wrong
// line.
func (s *scanner) scan(p []byte) (sound int, err error) {
	for i := 0; i < len(p); {
		switch {
		case s.payload > 2: // the text itself does not matter
			n := min(s.payload-2, int64(len(p)-i))
			s.payload -= n
			i += int(n)
		case s.payload > 0:
			if p[i] != "\n\r"[s.payload-1] {
				return i, wrong("a text does not end where it should")
			}
			if s.payload--; s.payload == 0 {
				s.valueEnds()
			}
			i++
		case s.kind == 0:
			if err := s.begin(p[i:]); err != nil {
				return i, err
			}
			i++
		case s.announces():
			if err := s.header(p[i]); err != nil {
				return i, err
			}
			i++
		default:
			n, err := s.simple(p[i:])
			if err != nil {
				return i + n, err
			}
			i += n
		}
	}
	return len(p), nil
}

// begin reads the first byte of a line.
func (s *scanner) begin(p []byte) error {
	s.kind, s.line, s.last, s.digits, s.length, s.negative = p[0], 1, p[0], 0, 0, false
	switch p[0] {
	case '+', '-', ':', ',', '#', '_', '(':
	case '$', '!', '=', '*', '~', '%':
	case '>':
		if s.depth > 0 {
			return wrong("it has a message to subscribers in the middle")
		}
	default:
		// Attributes ('|') are among these: Redis sends them only on request, and clients read any number of them
		// before an answer.
		return wrong("a value begins with %q", p[:min(len(p), 12)])
	}
	return nil
}

// announces reports whether the line announces the length of what follows.
func (s *scanner) announces() bool {
	switch s.kind {
	case '$', '!', '=', '*', '~', '%', '>':
		return true
	}
	return false
}

// simple reads a part of a line that is a value itself.
func (s *scanner) simple(p []byte) (n int, err error) {
	end := bytes.IndexByte(p, '\n')
	n = end
	if end < 0 {
		n = len(p)
	}
	if s.line += n; s.line > longestLine {
		return 0, wrong("it has a line of more than %d bytes", longestLine)
	}
	if n > 0 {
		s.last = p[n-1]
	}
	if end < 0 {
		return n, nil
	}
	if s.last != '\r' {
		return n, wrong("a line does not end as it should")
	}
	if err := s.spend(int64(s.line)); err != nil {
		return n, err
	}
	s.valueEnds()
	return n + 1, nil
}

// header reads the next byte of a line that announces a length.
func (s *scanner) header(c byte) error {
	switch {
	case s.last == '\r' && c == '\n':
		return s.announced()
	case s.last == '\r' || c == '\r' && s.digits == 0:
		return wrong("it announces a %s of no length", s.word())
	case c == '-' && s.line == 1:
		s.negative = true
	case '0' <= c && c <= '9':
		if s.digits++; s.digits > mostDigits {
			return wrong("it announces a %s whose length has more than %d digits", s.word(), mostDigits)
		}
		if digit := int64(c - '0'); s.length > (math.MaxInt64-digit)/10 {
			s.length = math.MaxInt64
		} else {
			s.length = 10*s.length + digit
		}
	case c != '\r':
		return wrong("it announces a %s of a length with %q in it", s.word(), c)
	}
	s.line++
	s.last = c
	return nil
}

// announced handles the end of a line that announces a length.
func (s *scanner) announced() error {
	if s.negative {
		if (s.kind != '$' && s.kind != '*') || s.length != 1 || s.digits != 1 {
			return wrong("it announces a %s of length -%d", s.word(), s.length)
		}
		s.valueEnds()
		return nil
	}
	isText := s.kind == '$' || s.kind == '!' || s.kind == '='
	cost, values := s.length, s.length
	switch {
	case s.length > mostMemory: // what follows would not fit
	case s.kind == '%':
		values *= 2
		cost = mapCost + values*valueCost
	case !isText:
		cost = (1 + values) * valueCost
	}
	if err := s.spend(cost); err != nil {
		if cost > mostMemory {
			return wrong("it announces a %s of %d %s", s.word(), s.length, s.unit())
		}
		return err
	}
	switch {
	case isText:
		s.kind, s.payload = 0, s.length+2
	case values == 0:
		s.valueEnds()
	case s.depth == deepest:
		return wrong("it nests lists more than %d deep", deepest)
	default:
		s.kind = 0
		s.open[s.depth] = values
		s.depth++
	}
	return nil
}

// spend adds the cost of a value.
func (s *scanner) spend(cost int64) error {
	if s.spent += min(cost, mostMemory+1); s.spent > mostMemory {
		return wrong("it goes on after %d MB", mostMemory>>20)
	}
	return nil
}

// valueEnds handles the end of a value, and perhaps of lists around it.
func (s *scanner) valueEnds() {
	s.kind = 0
	for s.depth > 0 {
		if s.open[s.depth-1]--; s.open[s.depth-1] > 0 {
			return
		}
		s.depth--
	}
}

func (s *scanner) word() string {
	switch s.kind {
	case '$', '!', '=':
		return "text"
	case '%':
		return "map"
	case '>':
		return "message"
	}
	return "list"
}

func (s *scanner) unit() string {
	switch s.kind {
	case '$', '!', '=':
		return "bytes"
	}
	return "values"
}
