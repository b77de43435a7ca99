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
	place *place
	name  string // of a header, a cookie, a query parameter; or the value itself
	// hashed: the value is a secret, and keys contain only its hash.
	hashed bool
}

// A place is a kind of sources. A name follows a word that ends with a colon.
type place struct {
	word  string
	value func(r *http.Request, clients *Clients, name string) string
	// check returns the name in the form of requests, or what is wrong with it; nil if any name is right.
	check func(name string) (plain, wrong string)
}

const client = "client"

var places = [...]place{
	{client, func(r *http.Request, clients *Clients, _ string) string { return clients.Of(r) }, nil},
	{"method", func(r *http.Request, _ *Clients, _ string) string { return methodOf(r) }, nil},
	{"host", func(r *http.Request, _ *Clients, _ string) string { return hostOf(r) }, nil},
	{"path", func(r *http.Request, _ *Clients, _ string) string { return plainPath(r) }, nil},
	{"path:", func(r *http.Request, _ *Clients, n string) string { return firstSegments(plainPath(r), n) },
		checkSegments},
	{"header:", func(r *http.Request, _ *Clients, name string) string { return fieldOf(r, name) }, checkField},
	{"query:", func(r *http.Request, _ *Clients, name string) string { return queryOf(r.URL.RawQuery, name) }, nil},
	{"cookie:", func(r *http.Request, _ *Clients, name string) string { return cookieOf(r, name) }, checkCookie},
	{"value:", func(_ *http.Request, _ *Clients, text string) string { return text }, nil},
}

// hashWord precedes the source of a secret.
const hashWord = "hash:"

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
// Keys, backups, the dashboard and the audit show a value as it is, so use hash: for a secret. A hash does not hide a
// value that can be guessed.
//
// A request has no value if it is missing or empty, or if there are several different ones. The client chooses
// everything but its address. An error is a [limiter.ErrInvalid].
func ParseSource(text string) (Source, error) {
	plain, hashed := strings.CutPrefix(text, hashWord)
	for i := range places {
		p := &places[i]
		name, found := strings.CutPrefix(plain, p.word)
		if !found || strings.HasSuffix(p.word, ":") != (name != "") {
			continue
		}
		if p.check != nil {
			var wrong string
			if name, wrong = p.check(name); wrong != "" {
				return Source{}, store.Invalidf("source %q: %s", text, wrong)
			}
		}
		return Source{p, name, hashed}, nil
	}
	return Source{}, store.Invalidf(
		"source %q is unknown; it is client, method, host, path, path:N, header:NAME, query:NAME, "+
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

func checkSegments(name string) (plain, wrong string) {
	n, err := strconv.Atoi(name)
	if err != nil || n < 1 || n > 32 {
		return "", strconv.Quote(name) + " is not a number of segments from 1 to 32, such as path:2"
	}
	return strconv.Itoa(n), ""
}

func checkField(name string) (plain, wrong string) {
	plain = http.CanonicalHeaderKey(name)
	switch {
	case !isToken(name):
		return "", strconv.Quote(name) + " is not the name of a header field"
	case plain == XForwardedFor || plain == Forwarded:
		return "", "any client can send that field; use client, and trust the proxies that set it"
	}
	return plain, ""
}

func checkCookie(name string) (plain, wrong string) {
	if !isToken(name) {
		return "", strconv.Quote(name) + " is not the name of a cookie"
	}
	return name, ""
}

// isToken reports whether text is a token of RFC 9110, like the names of fields and cookies.
func isToken(text string) bool {
	const others = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return text != "" && strings.Trim(text, others) == ""
}

// String returns the source as ParseSource reads it.
func (s Source) String() string {
	switch {
	case s.place == nil:
		return ""
	case s.hashed:
		return hashWord + s.place.word + s.name
	}
	return s.place.word + s.name
}

// attribute is the name of a value of s if no policy names it.
func (s *Source) attribute() string {
	switch s.place.word {
	case client:
		return "ip"
	case "header:", "query:", "cookie:":
		return strings.ToLower(s.name)
	}
	return "key"
}

// value returns the value of s in r, hashed if it is a secret; empty if r has none.
func (s *Source) value(r *http.Request, clients *Clients) string {
	value := s.place.value(r, clients, s.name)
	if s.hashed && value != "" {
		return hashOf(value)
	}
	return value
}

// hashOf returns 192 bits of a hash of value.
func hashOf(value string) string {
	sum := sha256.Sum256([]byte(value))
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}
