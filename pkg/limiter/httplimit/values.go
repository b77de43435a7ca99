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

// otherMethod stands for all methods that are not known. Else a client could have a limit of
// its own for each that it makes up.
const otherMethod = "OTHER"

func methodOf(r *http.Request) string {
	switch r.Method {
	case "":
		return http.MethodGet // as net/http has it
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect,
		http.MethodOptions, http.MethodTrace, "QUERY",
		"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH":
		return r.Method
	}
	return otherMethod
}

// hostOf returns the host without its port: names mean the same in any case, with a dot at the end or not.
func hostOf(r *http.Request) string {
	host := r.Host
	if inside, has := strings.CutPrefix(host, "["); has {
		host, _, _ = strings.Cut(inside, "]")
	} else if name, _, has := strings.Cut(host, ":"); has {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// plainPath returns the path of r in the one form that stands for all in which it can be
// written: without escapes, empty segments, dots, and a slash at its end.
func plainPath(r *http.Request) string {
	p := r.URL.Path
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return path.Clean(p)
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

// same returns the value that all of values have, or nothing if there is none.
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

// queryOf returns the parameter of that name. It reads no other, as queries can be long.
func queryOf(query, name string) string {
	value, found := "", false
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, text, _ := strings.Cut(pair, "=")
		if len(key) < len(name) || len(key) > 3*len(name) {
			continue // also with escapes, a byte has three at most
		}
		if key != name {
			unescaped, err := url.QueryUnescape(key)
			if err != nil || unescaped != name {
				continue
			}
		}
		text, err := url.QueryUnescape(text)
		if err != nil || strings.Contains(pair, ";") { // net/http does not read it, and others read it otherwise
			return ""
		}
		if found && text != value {
			return ""
		}
		value, found = text, true
	}
	return value
}

func cookieOf(r *http.Request, name string) string {
	value := ""
	for i, cookie := range r.CookiesNamed(name) {
		if i > 0 && cookie.Value != value {
			return ""
		}
		value = cookie.Value
	}
	return value
}

// What a value has in a key at most, in bytes, so that several fit; and how much of a longer
// one stays, before 192 bits of a hash of all of it.
const (
	maxValue  = 128
	keptValue = 64
	hashBytes = 24
)

// bounded returns value, or what stands for it if it is long. Who can send one can send the
// other, so nothing is gained by making up what looks like a hash.
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

// escapedLength is how long value is as a part of a subject, in which some bytes are
// written as %XX.
func escapedLength(value string) int {
	length := 0
	for i, r := range value {
		length += escapedSize(r, value[i:])
	}
	return length
}

// escapedSize is that of the character r, which text begins with.
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
