package httplimit

import (
	"net/http"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Source says where in a request the value of an attribute is. The zero Source is invalid.
type Source struct {
	kind sourceKind
	name string // of a header, a cookie, a query parameter; or the value itself
}

type sourceKind uint8

const (
	fromClient sourceKind = iota + 1
	fromMethod
	fromHost
	fromPath
	fromHeader
	fromQuery
	fromCookie
	fromValue
)

// sourceWords are the kinds as configurations write them. Those that end with a colon have
// a name after it.
var sourceWords = []struct {
	word string
	kind sourceKind
}{
	{"client", fromClient}, {"method", fromMethod}, {"host", fromHost}, {"path", fromPath},
	{"header:", fromHeader}, {"query:", fromQuery}, {"cookie:", fromCookie}, {"value:", fromValue},
}

// ParseSource reads "client" (the client's address, see [Clients]), "method", "host", "path",
// "header:NAME", "query:NAME", "cookie:NAME" or "value:TEXT". The error is a
// [limiter.ErrInvalid].
func ParseSource(text string) (Source, error) {
	for _, each := range sourceWords {
		name, found := strings.CutPrefix(text, each.word)
		if !found || strings.HasSuffix(each.word, ":") != (name != "") {
			continue
		}
		return Source{each.kind, name}, nil
	}
	return Source{}, limiter.Invalidf("source %q is unknown; it is client, method, host, path, header:NAME, query:NAME, cookie:NAME "+
		"or value:TEXT", text)
}

// String returns the source as ParseSource reads it.
func (s Source) String() string {
	for _, each := range sourceWords {
		if each.kind == s.kind {
			return each.word + s.name
		}
	}
	return ""
}

// value returns what the source is in r; empty if r has none.
func (s Source) value(r *http.Request, clients *Clients) string {
	switch s.kind {
	case fromClient:
		return clients.Of(r)
	case fromMethod:
		return r.Method
	case fromHost:
		return r.Host
	case fromPath:
		return r.URL.Path
	case fromHeader:
		return r.Header.Get(s.name)
	case fromQuery:
		return r.URL.Query().Get(s.name)
	case fromCookie:
		if cookie, err := r.Cookie(s.name); err == nil {
			return cookie.Value
		}
	case fromValue:
		return s.name
	}
	return ""
}
