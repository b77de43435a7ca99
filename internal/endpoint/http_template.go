package endpoint

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Placeholders in a request for the subject and the cost.
const (
	SubjectPlace = "{subject}"
	CostPlace    = "{cost}"
)

// encoding is the encoding of a subject at a place.
type encoding uint8

const (
	verbatim encoding = iota
	inURL             // percent-encoded
	inHeader          // characters that could end the line are percent-encoded
	inJSON            // as the inside of a JSON string
)

// part is a part of a template: a text, the subject or the cost.
type part struct {
	text string // for a text
	kind partKind
}

type partKind uint8

const (
	literal partKind = iota
	subjectPart
	costPart
)

// template is a text with places for a subject and a cost.
type template struct {
	parts    []part
	encoding encoding
}

// newTemplate splits a text at its places.
func newTemplate(text string, as encoding) template {
	return splitTemplate(text, SubjectPlace, CostPlace, as)
}

// splitTemplate splits a text at the given marks for subject and cost.
func splitTemplate(text, subject, cost string, as encoding) template {
	t := template{encoding: as}
	for text != "" {
		at, kind, length := len(text), literal, 0
		if i := strings.Index(text, subject); i >= 0 {
			at, kind, length = i, subjectPart, len(subject)
		}
		if i := strings.Index(text, cost); i >= 0 && i < at {
			at, kind, length = i, costPart, len(cost)
		}
		if at > 0 {
			t.parts = append(t.parts, part{text: text[:at]})
		}
		if kind != literal {
			t.parts = append(t.parts, part{kind: kind})
		}
		text = text[at+length:]
	}
	return t
}

// has reports whether the template contains a kind of part.
func (t *template) has(kind partKind) bool {
	return slices.ContainsFunc(t.parts, func(p part) bool { return p.kind == kind })
}

// append appends the text for a subject and a cost.
func (t *template) append(to []byte, subject string, cost int64) []byte {
	for i := range t.parts {
		switch p := &t.parts[i]; p.kind {
		case literal:
			to = append(to, p.text...)
		case subjectPart:
			to = t.encoding.append(to, subject)
		case costPart:
			to = strconv.AppendInt(to, cost, 10)
		}
	}
	return to
}

// append appends a subject in this encoding.
func (e encoding) append(to []byte, subject string) []byte {
	switch e {
	case inURL:
		return appendPercent(to, subject)
	case inHeader:
		return appendHeaderValue(to, subject)
	case inJSON:
		return appendJSON(to, subject)
	case verbatim:
	}
	return append(to, subject...)
}

const hexDigits = "0123456789ABCDEF"

// appendPercent appends a text that means the same in a path and in a query: it percent-encodes all but the
// unreserved characters of RFC 3986. It also encodes dots in "." and "..", because such a part of a path would mean
// another path.
func appendPercent(to []byte, text string) []byte {
	dots := text == "." || text == ".."
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '~', c == '.' && !dots:
			to = append(to, c)
		default:
			to = append(to, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return to
}

// appendHeaderValue appends a text as a part of a header's value. It percent-encodes characters that could end the
// line, and spaces at an end, which a server would drop.
func appendHeaderValue(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == 0x7f || c == ' ' && (i == 0 || i == len(text)-1) {
			to = append(to, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			to = append(to, c)
		}
	}
	return to
}

// appendJSON appends a text as the inside of a JSON string.
func appendJSON(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			quoted, _ := json.Marshal(text) // cannot fail for a string
			return append(to, quoted[1:len(quoted)-1]...)
		}
	}
	return append(to, text...)
}

// parseTarget reads the URL of an endpoint. The template is for the request line.
func parseTarget(text string) (*url.URL, template, error) {
	// The places are not valid in a URL, so words replace them meanwhile.
	subject, cost := "SUBJECT", "COST"
	for strings.Contains(text, subject) || strings.Contains(text, cost) {
		subject, cost = subject+"x", cost+"x"
	}
	plain := strings.NewReplacer(SubjectPlace, subject, CostPlace, cost).Replace(text)
	u, err := url.Parse(plain)
	switch {
	case err != nil && strings.Contains(text, "@"): // nobody knows which part is a password
		return nil, template{}, store.Invalidf("the URL of the endpoint cannot be read; write http://HOST/PATH, and %%40 for an @")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "":
		return nil, template{}, store.Invalidf("%q is not the URL of an HTTP endpoint; write http://HOST/PATH", RedactURL(text))
	}
	if err := checkURLHost(u, subject, cost); err != nil {
		return nil, template{}, err
	}
	if strings.ContainsAny(u.Path, "{}") || strings.ContainsAny(u.RawQuery, "{}") {
		return nil, template{}, store.Invalidf("%q has braces that are not a place; the places are %s and %s, and %%7B is a brace",
			RedactURL(text), SubjectPlace, CostPlace)
	}
	u.Fragment, u.RawFragment = "", "" // it is never sent
	return u, splitTemplate(u.RequestURI(), subject, cost, inURL), nil
}

// checkURLHost returns what is wrong with the host of an HTTP endpoint.
func checkURLHost(u *url.URL, subject, cost string) error {
	host := u.Hostname()
	switch user := u.User.String(); {
	case host == "":
		return store.Invalidf("the URL names no host; write http://HOST/PATH")
	case strings.Contains(host, subject) || strings.Contains(host, cost):
		return store.Invalidf("the host of the URL cannot be different for each request; put %s into the path, the query, "+
			"a --header or the --body", SubjectPlace)
	case strings.Contains(user, subject) || strings.Contains(user, cost):
		return store.Invalidf("the login in the URL cannot be different for each request; use a --header")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return store.Invalidf("the port %s of the URL is out of range; it must be from 1 to 65535", port)
		}
	}
	return nil
}
