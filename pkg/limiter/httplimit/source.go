package httplimit

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Source is the place of an attribute's value in a request. The zero Source is invalid. [ParseSource] makes one.
type Source struct {
	kind sourceKind
	name string // of a header, a cookie, a query parameter; or the value itself
	// segments is the number of path segments to use.
	segments int
	// hashed: the value is a secret, and keys contain only its hash.
	hashed bool
}

type sourceKind uint8

const (
	fromClient sourceKind = iota + 1
	fromMethod
	fromHost
	fromPath
	fromSegments
	fromHeader
	fromQuery
	fromCookie
	fromValue
)

// sourceWords are the kinds as in configurations. A name follows those that end with a colon.
var sourceWords = []struct {
	word string
	kind sourceKind
}{
	{"client", fromClient}, {"method", fromMethod}, {"host", fromHost}, {"path", fromPath}, {"path:", fromSegments},
	{"header:", fromHeader}, {"query:", fromQuery}, {"cookie:", fromCookie}, {"value:", fromValue},
}

// hashWord precedes the source of a secret.
const hashWord = "hash:"

// maxSegments is the most path segments of a source.
const maxSegments = 32

// ParseSource reads a source:
//
//	client       the address or network of the client; see [Clients]
//	method       the method; OTHER for all that HTTP and WebDAV do not define
//	host         the host of the request, in lower case and without its port
//	path         the path in its plain form: /a//b/, /a/./b, /%61/b and /a;x=1/b are /a/b
//	path:N       the first N segments of the path: path:2 of /users/42/posts is /users/42
//	header:NAME  a field of the request; the scheme of Authorization is in lower case, and Host is as host
//	query:NAME   a parameter of the query
//	cookie:NAME  a cookie, without quotes and escapes
//	value:TEXT   always TEXT
//	hash:SOURCE  a hash of any of these (192 bits of SHA-256), for secrets such as an API key
//
// Keys, backups, the dashboard and the audit show a value as it is, so use hash: for a secret. A hash does not hide
// a value that can be guessed, such as an e-mail address: anybody who sees the hash can try out values.
//
// A request has no value if the value is missing or empty, or if there are several different ones: the service
// could use another than the one that is counted. The client chooses everything but its address, so the service
// must check it before it relies on it.
//
// An error is a [limiter.ErrInvalid].
func ParseSource(text string) (Source, error) {
	if secret, hashed := strings.CutPrefix(text, hashWord); hashed {
		s, err := ParseSource(secret)
		if err == nil && s.hashed {
			err = store.Invalidf("source %q is hashed twice; write hash: once", text)
		}
		s.hashed = true
		return s, err
	}
	for _, each := range sourceWords {
		name, found := strings.CutPrefix(text, each.word)
		if !found || strings.HasSuffix(each.word, ":") != (name != "") {
			continue
		}
		s := Source{kind: each.kind, name: name}
		return s, s.check(text)
	}
	return Source{}, store.Invalidf("source %q is unknown; it is client, method, host, path, path:N, header:NAME, query:NAME, "+
		"cookie:NAME or value:TEXT, or hash: and one of these", text)
}

// MustSource is [ParseSource] for texts in a program. It panics on an error.
func MustSource(text string) Source {
	s, err := ParseSource(text)
	if err != nil {
		panic(err)
	}
	return s
}

// check returns what is wrong with the name of s, and puts the name into the form that requests have.
func (s *Source) check(text string) error {
	switch s.kind {
	case fromHeader:
		if !isToken(s.name) {
			return store.Invalidf("source %q: %q is not the name of a header field", text, s.name)
		}
		s.name = http.CanonicalHeaderKey(s.name)
		if s.name == XForwardedFor || s.name == Forwarded {
			return store.Invalidf("source %q: any client can send that field; use client, and trust the proxies that set it", text)
		}
	case fromCookie:
		if !isToken(s.name) {
			return store.Invalidf("source %q: %q is not the name of a cookie", text, s.name)
		}
	case fromSegments:
		n, err := strconv.Atoi(s.name)
		if err != nil || n < 1 || n > maxSegments {
			return store.Invalidf("source %q: %q is not a number of segments; it must be from 1 to %d, such as path:2", text, s.name,
				maxSegments)
		}
		s.name, s.segments = strconv.Itoa(n), n
	default: // the others have no name, or accept any
	}
	return nil
}

// isToken reports whether text is a token of RFC 9110, like the names of fields and cookies.
func isToken(text string) bool {
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return text != ""
}

// String returns the source as ParseSource reads it.
func (s Source) String() string {
	for _, each := range sourceWords {
		if each.kind == s.kind {
			text := each.word + s.name
			if s.hashed {
				text = hashWord + text
			}
			return text
		}
	}
	return ""
}

// attribute is the name of a value of s if no policy names it.
func (s *Source) attribute() string {
	switch s.kind {
	case fromClient:
		return "ip"
	case fromHeader, fromQuery, fromCookie:
		return strings.ToLower(s.name)
	default:
		return "key"
	}
}

// value returns the value of s in r, hashed if it is a secret; empty if r has none.
func (s *Source) value(r *http.Request, clients *Clients) string {
	value := s.plainValue(r, clients)
	if !s.hashed || value == "" {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return base64.RawURLEncoding.EncodeToString(sum[:hashBytes])
}

func (s *Source) plainValue(r *http.Request, clients *Clients) string {
	switch s.kind {
	case fromClient:
		return clients.Of(r)
	case fromMethod:
		return methodOf(r)
	case fromHost:
		return hostOf(r)
	case fromPath:
		return plainPath(r)
	case fromSegments:
		return firstSegments(plainPath(r), s.segments)
	case fromHeader:
		return fieldOf(r, s.name)
	case fromQuery:
		return queryOf(r.URL.RawQuery, s.name)
	case fromCookie:
		return cookieOf(r, s.name)
	case fromValue:
		return s.name
	}
	return ""
}
