package endpoint

import (
	"encoding/json"
	"mime"
	"net/url"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What stands in a request where who asks, and for how much, belongs.
const (
	SubjectPlace = "{subject}"
	CostPlace    = "{cost}"
)

// encoding is how a subject is written at a place.
type encoding uint8

const (
	verbatim encoding = iota
	inURL             // percent-encoded
	inHeader          // what could end the line is percent-encoded
	inJSON            // as the inside of a JSON string
)

// part is a piece of a template: a text, the subject or the cost.
type part struct {
	text string // if it is neither of the others
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

// newTemplate takes a text apart at its places.
func newTemplate(text string, as encoding) template {
	return splitTemplate(text, SubjectPlace, CostPlace, as)
}

// splitTemplate takes a text apart where subject and cost stand.
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

// has reports whether a kind of part is in the template.
func (t *template) has(kind partKind) bool {
	for i := range t.parts {
		if t.parts[i].kind == kind {
			return true
		}
	}
	return false
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

// append appends a subject as it is written at a place.
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

// appendPercent appends a text so that it means the same in a path and in a query: all but the
// unreserved characters of RFC 3986 is percent-encoded. A dot is encoded where the text
// consists of dots, because such a part of a path means another path.
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

// appendHeaderValue appends a text as a part of a header's value. Characters that could end
// the line are percent-encoded, and spaces at an end, which a server would not see.
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
			quoted, _ := json.Marshal(text) // a string never fails
			return append(to, quoted[1:len(quoted)-1]...)
		}
	}
	return append(to, text...)
}

// isJSON reports whether a media type is JSON.
func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// isForm reports whether a media type is that of a web form.
func isForm(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/x-www-form-urlencoded"
}

// parseTarget reads the URL of an endpoint. The template is of what a request line holds.
func parseTarget(text string) (*url.URL, template, error) {
	// The places are no part of a URL's syntax, so that words stand for them meanwhile.
	subject, cost := "SUBJECT", "COST"
	for strings.Contains(text, subject) || strings.Contains(text, cost) {
		subject, cost = subject+"x", cost+"x"
	}
	plain := strings.NewReplacer(SubjectPlace, subject, CostPlace, cost).Replace(text)
	u, err := url.Parse(plain)
	switch {
	case err != nil && strings.Contains(text, "@"): // what is a password cannot be told
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
	u.Fragment, u.RawFragment = "", "" // is never sent
	return u, splitTemplate(u.RequestURI(), subject, cost, inURL), nil
}

// checkURLHost reports what is wrong with the host of an HTTP endpoint.
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
