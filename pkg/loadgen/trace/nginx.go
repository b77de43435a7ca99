package trace

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// nginxFields are the names that variables of nginx have as in an access log. Other variables are fields by their own
// names.
var nginxFields = map[string]string{
	"remote_addr": "ip", "remote_user": "user", "time_local": "time", "time_iso8601": "time", "msec": "time",
	"request_method": "method", "request_uri": "path", "uri": "path", "server_protocol": "protocol",
	"body_bytes_sent": "bytes", "bytes_sent": "bytes", "http_referer": "referer", "http_user_agent": "agent",
}

// nginxValues are how the values of variables look, where that is known. Without quotes nginx writes "-" for an empty
// value.
var nginxValues = map[string]string{
	"remote_addr": `\S+`, "time_local": `\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}`, "time_iso8601": `\S+`,
	"msec": `[\d.]+`, "status": `\d{3}|-`, "body_bytes_sent": `\d+|-`, "bytes_sent": `\d+|-`,
}

var nginxVariable = texts.Regexp(`\$(?:(\w+)|\{(\w+)\})`)

// nginxFormat is a log_format of nginx.
type nginxFormat struct {
	line   *regexp.Regexp
	fields []string // of the groups; "request" is three
}

// newNginxFormat reads a log_format. An error is a [store.ErrInvalid].
func newNginxFormat(text string) (*nginxFormat, error) {
	f, pattern, end := new(nginxFormat), "^", 0
	for i, at := range nginxVariable().FindAllStringSubmatchIndex(text, -1) {
		between := text[end:at[0]]
		if i > 0 && between == "" {
			return nil, store.Invalidf("the log format has no text before %s; add some", text[at[0]:at[1]])
		}
		name := strings.Trim(text[at[0]:at[1]], "${}")
		value := nginxValues[name]
		switch {
		case value != "":
		case strings.HasSuffix(between, `"`):
			value = `(?:[^"\\]|\\.)*`
		default:
			value = `.+?`
		}
		pattern += regexp.QuoteMeta(between) + "(" + value + ")"
		if known := nginxFields[name]; known != "" {
			name = known
		}
		f.fields, end = append(f.fields, name), at[1]
	}
	if !slices.Contains(f.fields, "time") {
		return nil, store.Invalidf("the log format has no time; add $time_local, $time_iso8601 or $msec")
	}
	var err error
	f.line, err = regexp.Compile(pattern + regexp.QuoteMeta(text[end:]) + "$")
	return f, err
}

// names returns the names of the fields, each once.
func (f *nginxFormat) names() (names []string) {
	for _, name := range f.fields {
		if name == "request" {
			names = append(names, "method", "path", "protocol")
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nginxParser reads lines in a log_format.
type nginxParser struct {
	*nginxFormat
	plan *plan
}

// value returns the value of a field, nil if it has none.
func (f *nginxFormat) value(name string, line []byte, groups []int) (value []byte) {
	part := slices.Index([]string{"method", "path", "protocol"}, name)
	for i, field := range f.fields {
		value = line[groups[2*i+2]:groups[2*i+3]]
		switch {
		case field == name && name == "path":
			value, _, _ = bytes.Cut(value, []byte{'?'})
		case field == name:
		case field == "request" && part >= 0:
			method, path, protocol := splitRequest(value)
			value = [][]byte{method, path, protocol}[part]
		default:
			continue
		}
		if string(value) == "-" {
			return nil
		}
		return value
	}
	return nil
}

// parse implements parser.
func (p *nginxParser) parse(line []byte, r *record) (reason string) {
	groups := p.line.FindSubmatchIndex(line)
	if groups == nil {
		return "it is not in the log format"
	}
	if reason = p.plan.instant(p.value("time", line, groups), r); reason != "" {
		return reason
	}
	if p.plan.cost != "" {
		r.cost = p.value(p.plan.cost, line, groups)
	}
	for i, field := range p.plan.wanted {
		r.values[i] = p.value(field.Name, line, groups)
	}
	return ""
}
