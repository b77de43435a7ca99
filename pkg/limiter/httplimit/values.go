package httplimit

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// otherMethod replaces all unknown methods. Otherwise a client could invent methods and have a new limit for each.
const otherMethod = "OTHER"

func methodOf(r *http.Request) string {
	switch r.Method {
	case "":
		return http.MethodGet // like net/http
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect,
		http.MethodOptions, http.MethodTrace, "QUERY",
		"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH":
		return r.Method
	}
	return otherMethod
}

// hostOf returns the host without its port, in lower case and without a dot at the end, which mean the same.
func hostOf(r *http.Request) string {
	host := r.Host
	if inside, has := strings.CutPrefix(host, "["); has {
		host, _, _ = strings.Cut(inside, "]")
	} else if name, _, has := strings.Cut(host, ":"); has {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// plainPath returns the path of r in one form for all ways to write it: without escapes, empty segments, dots, and
// a slash at its end. Some services read a backslash as a slash and ignore what follows a semicolon in a segment,
// so it does, too. At worst several paths share one limit.
func plainPath(r *http.Request) string {
	p := r.URL.Path
	if strings.ContainsAny(p, `;\`) {
		p = withoutParameters(strings.ReplaceAll(p, `\`, "/"))
	}
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return path.Clean(p)
}

// withoutParameters removes what follows a semicolon in each segment of p.
func withoutParameters(p string) string {
	var b strings.Builder
	for i, segment := range strings.Split(p, "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		segment, _, _ = strings.Cut(segment, ";")
		b.WriteString(segment)
	}
	return b.String()
}

// firstSegments returns the first n segments of a plain path.
func firstSegments(plain string, n int) string {
	at := 0
	for range n {
		next := strings.IndexByte(plain[at+1:], '/')
		if next < 0 {
			return plain
		}
		at += 1 + next
	}
	return plain[:at]
}

// same returns the value if all values are equal, or "" if there is none.
func same(values []string) string {
	if len(values) == 0 {
		return ""
	}
	for _, value := range values[1:] {
		if value != values[0] {
			return ""
		}
	}
	return values[0]
}

// fieldOf returns the field of that name. The scheme of credentials has no case, and the blanks behind it do not
// count, so "bearer  T" means "Bearer T" to a service.
func fieldOf(r *http.Request, name string) string {
	switch name {
	case "Host": // net/http keeps it separately
		return hostOf(r)
	case "Authorization", "Proxy-Authorization":
		value := same(r.Header[name])
		if at := strings.IndexAny(value, blanks); at >= 0 {
			return strings.ToLower(value[:at]) + " " + strings.Trim(value[at:], blanks)
		}
		return value
	}
	return same(r.Header[name])
}

// queryOf returns the parameter of that name. It decodes no other, since queries can be long.
func queryOf(query, name string) string {
	value, found := "", false
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if strings.Contains(pair, ";") { // net/http ignores it, and others read it as several
			if hasParameter(pair, name) {
				return ""
			}
			continue
		}
		if !isParameter(pair, name) {
			continue
		}
		_, text, _ := strings.Cut(pair, "=")
		text, err := url.QueryUnescape(text)
		if err != nil || found && text != value {
			return ""
		}
		value, found = text, true
	}
	return value
}

// hasParameter reports whether pair contains a parameter of that name after splitting at semicolons.
func hasParameter(pair, name string) bool {
	for part := range strings.SplitSeq(pair, ";") {
		if isParameter(part, name) {
			return true
		}
	}
	return false
}

// isParameter reports whether pair is the parameter of that name.
func isParameter(pair, name string) bool {
	key, _, _ := strings.Cut(pair, "=")
	if len(key) < len(name) || len(key) > 3*len(name) {
		return false // even if all is escaped, with three characters for a byte
	}
	if key == name {
		return true
	}
	unescaped, err := url.QueryUnescape(key)
	return err == nil && unescaped == name
}

// cookieOf returns the cookie of that name. Many services decode escapes in the names and values of cookies, so
// forms with and without escapes count as the same.
func cookieOf(r *http.Request, name string) string {
	value, found := "", false
	for _, line := range r.Header["Cookie"] {
		for line != "" {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			key, text, _ := strings.Cut(pair, "=")
			if unescaped(strings.Trim(key, blanks)) != name {
				continue
			}
			text = strings.Trim(text, blanks)
			if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
				text = text[1 : len(text)-1]
			}
			if text = unescaped(text); found && text != value {
				return ""
			}
			value, found = text, true
		}
	}
	return value
}

// unescaped decodes text, or returns it unchanged if an escape is not well-formed.
func unescaped(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	plain, err := url.PathUnescape(text)
	if err != nil {
		return text
	}
	return plain
}

// maxValue is the most bytes of a value in a key, so that several fit. A longer value keeps the first keptValue
// bytes and ends with 192 bits of a hash of the whole value.
const (
	maxValue  = 128
	keptValue = 64
	hashBytes = 24
)

// bounded returns value, or its short form if it is long. A value that imitates the short form gains nothing: a
// client that can send it can also send the long one.
func bounded(value string) string {
	if len(value) <= maxValue/3 || escapedLength(value) <= maxValue {
		return value
	}
	kept, length := 0, 0
	for i, r := range value {
		if length += escapedSize(r, value[i:]); length > keptValue {
			break
		}
		kept = i
	}
	sum := sha256.Sum256([]byte(value))
	return value[:kept] + "~" + base64.RawURLEncoding.EncodeToString(sum[:hashBytes])
}

// escapedLength is the length of value in a subject, which writes some bytes as %XX.
func escapedLength(value string) int {
	length := 0
	for i, r := range value {
		length += escapedSize(r, value[i:])
	}
	return length
}

// escapedSize is the same for r, the first character of text.
func escapedSize(r rune, text string) int {
	switch {
	case r == '%' || r == ':' || r == '{' || r == '}':
		return 3
	case r < utf8.RuneSelf && r >= ' ' && r != 0x7f:
		return 1
	case r == utf8.RuneError && !strings.HasPrefix(text, string(utf8.RuneError)):
		return 3 // a byte that is not UTF-8
	case unicode.IsControl(r):
		return 3 * utf8.RuneLen(r)
	}
	return utf8.RuneLen(r)
}
