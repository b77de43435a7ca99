package redisserver

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
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
)

// wrong returns why a client must not read on.
func wrong(format string, args ...any) error {
	return &answerError{"its answer is not one that Redis gives: " + fmt.Sprintf(format, args...)}
}

// scanner follows a stream of RESP values, of version 2 or 3, without storing any.
type scanner struct {
	spent   int64 // the cost of the values in this exchange
	payload int64 // the remaining bytes of a text, including its line end

	kind   byte     // of the current line; 0 between lines
	line   int      // bytes of it read after the kind
	last   byte     // the last of them
	length [21]byte // the length that it announces: what does not fit is more than an int64

	depth int
	open  [deepest]int64 // the remaining values of each enclosing list
}

// The kinds of lines that are values themselves, and of those that announce the length of a text or of a list.
const (
	simpleKinds = "+-:,#_("
	textKinds   = "$!="
	listKinds   = "*~%>"
)

func isOneOf(kinds string, kind byte) bool { return strings.IndexByte(kinds, kind) >= 0 }

// scan checks the next bytes. On an error it returns how many of them are sound: those before the end of the wrong
// line.
func (s *scanner) scan(p []byte) (sound int, err error) {
	for i := 0; i < len(p); {
		n := 1
		switch {
		case s.payload > 2: // the text itself does not matter
			n = int(min(s.payload-2, int64(len(p)-i)))
			s.payload -= int64(n)
		case s.payload > 0:
			if p[i] != "\n\r"[s.payload-1] {
				return i, wrong("a text does not end where it should")
			}
			if s.payload--; s.payload == 0 {
				s.valueEnds()
			}
		case s.kind == 0:
			err = s.begin(p[i:])
		case isOneOf(simpleKinds, s.kind):
			n, err = s.simple(p[i:])
		case p[i] == '\n':
			err = s.announced()
		case s.line == len(s.length):
			err = wrong("it announces a length of more than %d characters", len(s.length))
		default:
			s.length[s.line] = p[i]
			s.line++
		}
		if err != nil {
			return i, err
		}
		i += n
	}
	return len(p), nil
}

// begin reads the first byte of a line.
func (s *scanner) begin(p []byte) error {
	switch s.kind, s.line, s.last = p[0], 0, p[0]; {
	case s.kind == '>' && s.depth > 0:
		return wrong("it has a message to subscribers in the middle")
	case isOneOf(simpleKinds, s.kind), isOneOf(textKinds, s.kind), isOneOf(listKinds, s.kind):
		return nil
	}
	// Attributes ('|') are among these: Redis sends them only on request, and clients read any number of them
	// before an answer.
	return wrong("a value begins with %q", p[:min(len(p), 12)])
}

// simple reads a part of a line that is a value itself.
func (s *scanner) simple(p []byte) (n int, err error) {
	part, _, ended := bytes.Cut(p, []byte("\n"))
	if s.line += len(part); s.line > longestLine {
		return 0, wrong("it has a line of more than %d bytes", longestLine)
	}
	if len(part) > 0 {
		s.last = part[len(part)-1]
	}
	switch {
	case !ended:
		return len(part), nil
	case s.last != '\r':
		return 0, wrong("a line does not end as it should")
	}
	s.valueEnds()
	return len(part) + 1, s.spend(int64(s.line))
}

// announced handles the end of a line that announces a length.
func (s *scanner) announced() error {
	text, ended := bytes.CutSuffix(s.length[:s.line], []byte("\r"))
	length, err := strconv.ParseInt(string(text), 10, 64)
	isText, isNil := isOneOf(textKinds, s.kind), string(text) == "-1" && (s.kind == '$' || s.kind == '*')
	switch {
	case isNil && ended:
		s.valueEnds()
		return nil
	case !ended || err != nil || text[0] < '0' || text[0] > '9':
		return wrong("it announces a length of %q", text)
	}
	cost, values, unit := length, length, "bytes"
	if !isText {
		unit = "values"
	}
	switch {
	case length > mostMemory: // what follows would not fit
	case s.kind == '%':
		values *= 2
		cost = mapCost + values*valueCost
	case !isText:
		cost = (1 + values) * valueCost
	}
	if cost > mostMemory {
		return wrong("it announces %d %s", length, unit)
	}
	switch {
	case isText:
		s.kind, s.payload = 0, length+2
	case values == 0:
		s.valueEnds()
	case s.depth == deepest:
		return wrong("it nests lists more than %d deep", deepest)
	default:
		s.kind = 0
		s.open[s.depth] = values
		s.depth++
	}
	return s.spend(cost)
}

// spend adds the cost of a value.
func (s *scanner) spend(cost int64) error {
	if s.spent += cost; s.spent > mostMemory {
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
