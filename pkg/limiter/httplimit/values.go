package httplimit

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/internal/texts"
)

// methodOf returns the method. OTHER replaces all unknown ones, which a client could invent.
func methodOf(r *http.Request) string {
	switch r.Method {
	case "":
		return http.MethodGet // like net/http
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect,
		http.MethodOptions, http.MethodTrace, "QUERY",
		"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH":
		return r.Method
	}
	return "OTHER"
}

// hostOf returns the host without its port, in lower case and without a dot at the end, which mean the same.
func hostOf(r *http.Request) string {
	host, _, _ := strings.Cut(r.Host, ":")
	if inside, has := strings.CutPrefix(r.Host, "["); has {
		host, _, _ = strings.Cut(inside, "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

var parameters = texts.Regexp(`;[^/]*`)

// plainPath returns the path of r in one form for all ways to write it: without escapes, empty segments, dots, and
// a slash at its end. As some services do, it reads a backslash as a slash and ignores what follows a semicolon.
func plainPath(r *http.Request) string {
	p := r.URL.Path
	if strings.ContainsAny(p, `;\`) {
		p = parameters().ReplaceAllString(strings.ReplaceAll(p, `\`, "/"), "")
	}
	return path.Clean("/" + p)
}

// firstSegments returns the first segments of a plain path; number is how many.
func firstSegments(plain, number string) string {
	n, _ := strconv.Atoi(number) // ParseSource checks it
	parts := strings.SplitN(plain, "/", n+2)
	return strings.Join(parts[:min(n+1, len(parts))], "/")
}

// same returns the value if all values are equal, or "" if there is none.
func same(values []string) string {
	if len(values) == 0 || slices.ContainsFunc(values, func(value string) bool { return value != values[0] }) {
		return ""
	}
	return values[0]
}

// fieldOf returns the field of that name. The scheme of credentials has no case, and blanks behind it do not count.
func fieldOf(r *http.Request, name string) string {
	value := same(r.Header[name])
	switch name {
	case "Host": // net/http keeps it separately
		return hostOf(r)
	case "Authorization", "Proxy-Authorization":
		if at := strings.IndexAny(value, blanks); at >= 0 {
			return strings.ToLower(value[:at]) + " " + strings.Trim(value[at:], blanks)
		}
	}
	return value
}

// queryOf returns the parameter of that name, and decodes no other. A pair with a semicolon is ignored by net/http, and
// several parameters for others.
func queryOf(query, name string) string {
	var values []string
	for pair := range strings.SplitSeq(query, "&") {
		for part := range strings.SplitSeq(pair, ";") {
			key, text, _ := strings.Cut(part, "=")
			if key, err := url.QueryUnescape(key); err != nil || key != name {
				continue
			}
			value, err := url.QueryUnescape(text)
			if err != nil || part != pair {
				return ""
			}
			values = append(values, value)
		}
	}
	return same(values)
}

// cookieOf returns the cookie of that name, without escapes, which many services decode.
func cookieOf(r *http.Request, name string) string {
	var values []string
	for _, line := range r.Header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			key, text, _ := strings.Cut(pair, "=")
			if unescaped(strings.Trim(key, blanks)) != name {
				continue
			}
			text = strings.Trim(text, blanks)
			if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
				text = text[1 : len(text)-1]
			}
			values = append(values, unescaped(text))
		}
	}
	return same(values)
}

// unescaped decodes text, or returns it unchanged if an escape is not well-formed.
func unescaped(text string) string {
	plain, err := url.PathUnescape(text)
	if err != nil {
		return text
	}
	return plain
}

// maxValue is the most bytes of a value in a key, so that several fit.
const maxValue = 128

// bounded returns value, or the beginning and a hash of a long one. Stores have keys of both forms.
func bounded(value string) string {
	if len(value) <= maxValue && len(subjecttext.Escape(value)) <= maxValue {
		return value
	}
	kept, length := 0, 0
	for i := range value {
		_, size := utf8.DecodeRuneInString(value[i:])
		if length += len(subjecttext.Escape(value[i : i+size])); length > maxValue/2 {
			break
		}
		kept = i
	}
	return value[:kept] + "~" + hashOf(value)
}
