package trace

import (
	"bytes"
	"fmt"
	"slices"
)

// The fields of an access log, as indexes into [ApacheFields].
const (
	apacheIP = iota
	apacheUser
	apacheTimeField
	apacheMethod
	apachePath
	apacheProtocol
	apacheStatus
	apacheBytes
	apacheReferer
	apacheAgent
	apacheFieldCount
)

// ApacheFields returns the names of an access log's fields: ip, the client's address or name; user; time; method,
// path (without the query string) and protocol of the request; status; bytes of the answer; referer; agent. Values
// are as in the log, with its escapes; "-" means no value.
func ApacheFields() []string {
	return []string{"ip", "user", "time", "method", "path", "protocol", "status", "bytes", "referer", "agent"}
}

// apacheParser reads lines such as
//
//	203.0.113.9 - frank [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 2326 "http://example.com/" "Mozilla/5.0"
//
// Referer, agent and what follows may be missing. The virtual host and its port may precede the client, as in
// Apache's vhost_combined.
type apacheParser struct {
	clock apacheClock
	// fields are the indexes of the wanted fields among a line's fields, or -1.
	fields []int
	cost   int
	found  [apacheFieldCount][]byte
	// The parts of a line that have to be read.
	request, quoted bool
}

func newApacheParser(p *plan) *apacheParser {
	a := &apacheParser{cost: slices.Index(ApacheFields(), p.cost)}
	for _, w := range p.wanted {
		a.fields = append(a.fields, slices.Index(ApacheFields(), w.Name))
	}
	for _, field := range append([]int{a.cost}, a.fields...) {
		switch field {
		case apacheMethod, apachePath, apacheProtocol:
			a.request = true
		case apacheReferer, apacheAgent:
			a.quoted = true
		}
	}
	return a
}

// parse implements parser.
func (a *apacheParser) parse(line []byte, r *record) (reason string) {
	ip := bytes.IndexByte(line, ' ')
	if ip <= 0 {
		return "it does not begin with a client's address and a space"
	}
	f := &a.found
	// A user name can contain spaces and brackets, so it ends where a time begins.
	bracket, end := ip, 0
	for end == 0 {
		from := bracket + 1
		next := bytes.IndexByte(line[from:], '[')
		if bracket = from + next; next < 0 && from == ip+1 {
			return "it has no time in brackets"
		} else if next < 0 {
			bracketed, _, _ := bytes.Cut(line[from:], []byte{']'})
			return fmt.Sprintf("its time, %q, is not like 17/May/2015:10:05:03 +0000, from 1970 to 2099", excerpt(bracketed))
		}
		begin, after := bracket+1, bracket+1+apacheTimeLength
		if line[bracket-1] == ' ' && after < len(line) && line[after] == ']' {
			if at, ok := a.clock.parse(line[begin:after]); ok {
				r.at, end, f[apacheTimeField] = at, after, line[begin:after]
			}
		}
	}
	client, identity, user := line[:ip], line[min(ip+1, bracket-1):bracket-1], []byte(nil)
	if space := bytes.IndexByte(identity, ' '); space >= 0 {
		identity, user = identity[:space], identity[space+1:]
	}
	if string(identity) != "-" && isHostAndPort(client) {
		if next, last, found := bytes.Cut(user, []byte{' '}); found {
			client, identity, user = identity, next, last
		}
	}
	if len(identity) == 0 || len(user) == 0 {
		return "it has no identity and user between the client and the time"
	}
	f[apacheIP], f[apacheUser] = client, user
	return a.rest(line[end+1:], r)
}

// rest reads what comes after the time, and sets the values of the record.
func (a *apacheParser) rest(text []byte, r *record) (reason string) {
	f := &a.found
	rest, opened := bytes.CutPrefix(text, []byte(` "`))
	quote := closingQuote(rest)
	if !opened || quote < 0 {
		return "it has no request in quotes after the time"
	}
	request := rest[:quote]
	status, rest, ok := number(rest[quote+1:])
	if !ok || len(status) != 3 && string(status) != "-" {
		return "it has no status after the request"
	}
	f[apacheStatus] = status
	if f[apacheBytes], rest, ok = number(rest); !ok {
		return "it has no number of bytes after the status"
	}
	if a.request {
		f[apacheMethod], f[apachePath], f[apacheProtocol] = splitRequest(request)
	}
	if a.quoted {
		f[apacheReferer], rest = quotedValue(rest)
		f[apacheAgent], _ = quotedValue(rest)
	}
	for i, field := range a.fields {
		if field >= 0 && string(f[field]) != "-" {
			r.values[i] = f[field]
		}
	}
	if a.cost >= 0 && string(f[a.cost]) != "-" {
		r.cost = f[a.cost]
	}
	return ""
}

// isHostAndPort reports whether text is like example.com:443, and so not a client: an IPv6 address has more than
// one colon.
func isHostAndPort(text []byte) bool {
	host, port, found := bytes.Cut(text, []byte{':'})
	if len(host) > 0 && host[0] == '[' {
		host, port, found = bytes.Cut(text, []byte("]:"))
	}
	return found && len(host) > 0 && len(port) > 0 && len(bytes.Trim(port, "0123456789")) == 0
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

// number cuts a space and a number, or a "-", off text. The text must end there or go on with a space.
func number(text []byte) (number, rest []byte, ok bool) {
	if len(text) < 2 || text[0] != ' ' {
		return nil, nil, false
	}
	number, rest = text[1:], nil
	if end := bytes.IndexByte(number, ' '); end >= 0 {
		number, rest = number[:end], number[end:]
	}
	return number, rest, string(number) == "-" || isDigits(number)
}

// splitRequest splits a request line, "GET /path?query HTTP/1.1". A text that is no request line, such as scanners
// send, becomes the path.
func splitRequest(request []byte) (method, path, protocol []byte) {
	if string(request) == "-" {
		return nil, nil, nil
	}
	method, path, found := bytes.Cut(request, []byte{' '})
	if !found {
		method, path = nil, request
	}
	if at := bytes.LastIndex(path, []byte(" HTTP/")); at >= 0 {
		path, protocol = path[:at], path[at+1:]
	}
	path, _, _ = bytes.Cut(path, []byte{'?'})
	return method, path, protocol
}

// quotedValue cuts a space and a value in quotes off text, if there is one.
func quotedValue(text []byte) (value, rest []byte) {
	text, opened := bytes.CutPrefix(text, []byte(` "`))
	if !opened {
		return nil, nil
	}
	end := closingQuote(text)
	if end < 0 {
		return nil, nil
	}
	return text[:end], text[end+1:]
}
