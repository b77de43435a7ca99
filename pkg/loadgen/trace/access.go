package trace

import (
	"bytes"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ApacheFields returns the names of an access log's fields: ip, the client's address or name; user; time; method,
// path (without the query string) and protocol of the request; status; bytes of the answer; referer; agent. Values
// are as in the log, with its escapes; "-" means no value.
func ApacheFields() []string {
	return []string{"ip", "user", "time", "method", "path", "protocol", "status", "bytes", "referer", "agent"}
}

// apacheFormat is the combined format of Apache and nginx. Its last two variables and what follows may be missing. The
// virtual host and its port may precede the client, as in Apache's vhost_combined.
const apacheFormat = `$remote_addr $identity $remote_user [$time_local] "$request" $status $body_bytes_sent ` +
	`"$http_referer" "$http_user_agent"`

// accessFields are the names that variables of nginx have as fields. Other variables are fields by their own names.
var accessFields = map[string]string{
	"remote_addr": "ip", "remote_user": "user", "time_local": "time", "time_iso8601": "time", "msec": "time",
	"request_method": "method", "request_uri": "path", "uri": "path", "server_protocol": "protocol",
	"body_bytes_sent": "bytes", "bytes_sent": "bytes", "http_referer": "referer", "http_user_agent": "agent",
}

var nginxVariable = texts.Regexp(`\$(?:(\w+)|\{(\w+)\})`)

// requestParts are the parts of a request line.
var requestParts = []string{"method", "path", "protocol"}

// accessFormat is a log_format of nginx.
type accessFormat struct {
	variables []variable
	end       string // what follows the last
	must      int    // the variables from there on may be missing, and anything may follow
}

// variable is a variable of a log_format.
type variable struct {
	before string // the text before it
	field  string
	kind   variableKind
	until  []byte    // the text after it
	next   *variable // nil after the last
}

// variableKind is what a value looks like.
type variableKind uint8

const (
	quoted  variableKind = iota // ends at the next quote that is not escaped
	number                      // digits, or "-"
	status                      // a number of three digits
	clock                       // such as 17/May/2015:10:05:03 +0000, and then what follows
	word                        // until what follows, without spaces
	anyText                     // until what follows, and the next value
)

// newAccessFormat reads a log_format; "" is that of [Apache]. An error is a [store.ErrInvalid].
func newAccessFormat(text string) (*accessFormat, error) {
	f, end := new(accessFormat), 0
	if text == "" {
		text, f.must = apacheFormat, 7
	}
	for i, at := range nginxVariable().FindAllStringIndex(text, -1) {
		v := variable{before: text[end:at[0]], field: strings.Trim(text[at[0]:at[1]], "${}")}
		if i > 0 && len(v.before) == 0 {
			return nil, store.Invalidf("the log format has no text before %s; add some", text[at[0]:at[1]])
		}
		switch v.field {
		case "remote_addr", "identity", "time_iso8601", "msec":
			v.kind = word
		case "body_bytes_sent", "bytes_sent":
			v.kind = number
		case "status":
			v.kind = status
		case "time_local":
			v.kind = clock
		default:
			if !strings.HasSuffix(v.before, `"`) {
				v.kind = anyText
			}
		}
		if known := accessFields[v.field]; known != "" {
			v.field = known
		}
		f.variables, end = append(f.variables, v), at[1]
	}
	if f.end = text[end:]; f.must == 0 {
		f.must = len(f.variables)
	}
	for i := range f.variables {
		v := &f.variables[i]
		if v.until = []byte(f.end); i+1 < len(f.variables) {
			v.next = &f.variables[i+1]
			v.until = []byte(v.next.before)
		}
	}
	if f.indexOf("time") < 0 {
		return nil, store.Invalidf("the log format has no time; add $time_local, $time_iso8601 or $msec")
	}
	return f, nil
}

func (f *accessFormat) indexOf(field string) int {
	return slices.IndexFunc(f.variables, func(v variable) bool { return v.field == field })
}

// names returns the names of the fields, each once.
func (f *accessFormat) names() (names []string) {
	for i := range f.variables {
		if names = append(names, f.variables[i].field); f.variables[i].field == "request" {
			names = append(names, requestParts...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// accessParser reads lines of an access log.
type accessParser struct {
	*accessFormat
	columns []accessColumn
	found   [][2]int // the values of the variables in the line; 0 of those that are missing
	read    int      // how many variables have to be read
}

// accessColumn is where a column comes from: a variable, and a part of a request line, -1 for all of it.
type accessColumn struct{ variable, part int }

func newAccessParser(f *accessFormat, columns []string) *accessParser {
	p := &accessParser{accessFormat: f, found: make([][2]int, len(f.variables)), read: f.must}
	for _, name := range columns {
		c := accessColumn{f.indexOf(name), -1}
		if part := slices.Index(requestParts, name); c.variable < 0 && part >= 0 {
			c = accessColumn{f.indexOf("request"), part}
		} else if name == "path" {
			c.part = len(requestParts)
		}
		p.columns, p.read = append(p.columns, c), max(p.read, c.variable+1)
	}
	return p
}

// parse implements parser.
func (p *accessParser) parse(line []byte, to [][]byte) (reason string) {
	const wrong = "it is not in the log format: it has no "
	at, after := 0, false // whether the text after the value before was seen
	for i := range p.read {
		v := &p.variables[i]
		begin, n := at+len(v.before), -1
		if after || begin <= len(line) && string(line[at:begin]) == v.before {
			n, after = v.length(line[begin:]), v.kind >= clock
		}
		if n < 0 {
			if i >= p.must {
				clear(p.found[i:])
				break
			}
			return wrong + p.missing(i)
		}
		at = begin + n
		p.found[i] = [2]int{begin, at}
	}
	value := func(i int) []byte { return line[p.found[i][0]:p.found[i][1]] }
	if p.must == len(p.variables) {
		if string(line[at:]) != p.end {
			return "it is not in the log format, which ends before"
		}
	} else if end := p.found[p.must-1][1]; end < len(line) && line[end] != ' ' {
		return wrong + p.variables[p.must-1].field
	} else if string(value(1)) != "-" && isHostAndPort(value(0)) {
		if space := bytes.IndexByte(value(2), ' '); space >= 0 {
			user := p.found[2][0] + space + 1
			p.found[0], p.found[1], p.found[2][0] = p.found[1], [2]int{p.found[2][0], user - 1}, user
		}
	}
	for i, c := range p.columns {
		if c.variable < 0 || p.found[c.variable][1] == 0 || string(value(c.variable)) == "-" {
			continue
		}
		switch to[i] = value(c.variable); {
		case c.part == len(requestParts):
			to[i], _, _ = bytes.Cut(to[i], []byte{'?'})
		case c.part >= 0:
			to[i] = splitRequest(to[i])[c.part]
		}
	}
	return ""
}

// missing is what a line lacks in which a variable cannot be read.
func (f *accessFormat) missing(i int) string {
	if i+1 < f.must && f.variables[i].kind == anyText && f.variables[i+1].kind == clock {
		return "time such as 17/May/2015:10:05:03 +0000"
	}
	return f.variables[i].field
}

// length returns how long the value is that text begins with, or -1 if it begins with none.
func (v *variable) length(text []byte) int {
	switch v.kind {
	case quoted:
		return closingQuote(text)
	case number, status:
		n := 0
		for n < len(text) && '0' <= text[n] && text[n] <= '9' {
			n++
		}
		switch {
		case n == 0 && bytes.HasPrefix(text, []byte{'-'}):
			return 1
		case n == 0, v.kind == status && n != 3:
			return -1
		}
		return n
	case clock:
		if len(text) < apacheTimeLength || text[2] != '/' || text[6] != '/' || text[11] != ':' || text[20] != ' ' ||
			!bytes.HasPrefix(text[apacheTimeLength:], v.until) {
			return -1
		}
		return apacheTimeLength
	case word:
		n := len(text)
		if len(v.until) > 0 {
			n = bytes.Index(text, v.until)
		}
		if n < 1 || string(v.until) != " " && bytes.IndexByte(text[:n], ' ') >= 0 {
			return -1
		}
		return n
	default:
	}
	if len(v.until) == 0 {
		return len(text)
	}
	for at := 1; at < len(text); at++ {
		found := bytes.Index(text[at:], v.until)
		if found < 0 {
			break
		}
		at += found
		after := text[at+len(v.until):]
		// A user name can have spaces and brackets, so it ends where a time begins.
		if v.next == nil && len(after) == 0 ||
			v.next != nil && (v.next.kind == quoted || v.next.kind > clock || v.next.length(after) >= 0) {
			return at
		}
	}
	return -1
}

// isHostAndPort reports whether text is like example.com:443, and so not a client: an IPv6 address has more than
// one colon.
func isHostAndPort(text []byte) bool {
	host, port, found := bytes.Cut(text, []byte{':'})
	if len(host) > 0 && host[0] == '[' {
		host, port, found = bytes.Cut(text, []byte("]:"))
	}
	return found && len(host) > 0 && isDigits(port)
}

// closingQuote returns the index of the quote that ends text, or -1. A backslash escapes the next character.
func closingQuote(text []byte) int {
	for from := 0; ; {
		at := bytes.IndexByte(text[from:], '"')
		if at < 0 {
			return -1
		}
		at += from
		backslashes := 0
		for at-backslashes > from && text[at-backslashes-1] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return at
		}
		from = at + 1
	}
}

// splitRequest splits a request line, "GET /path?query HTTP/1.1", into its parts. A text that is no request line,
// such as scanners send, becomes the path.
func splitRequest(request []byte) [3][]byte {
	method, path, found := bytes.Cut(request, []byte{' '})
	if !found {
		method, path = nil, request
	}
	var protocol []byte
	if at := bytes.LastIndex(path, []byte(" HTTP/")); at >= 0 {
		path, protocol = path[:at], path[at+1:]
	}
	path, _, _ = bytes.Cut(path, []byte{'?'})
	return [3][]byte{method, path, protocol}
}
