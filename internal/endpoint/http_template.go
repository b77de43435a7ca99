package endpoint

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Placeholders in a request for the subject and the cost.
const (
	SubjectPlace = "{subject}"
	CostPlace    = "{cost}"
)

// template is a text with places for a subject and a cost.
type template struct {
	text   string
	encode func(subject string) string
}

// expand returns the text for a subject and a cost.
func (t *template) expand(subject string, cost int64) string {
	text := t.text
	if strings.Contains(text, CostPlace) {
		text = strings.ReplaceAll(text, CostPlace, strconv.FormatInt(cost, 10))
	}
	if strings.Contains(text, SubjectPlace) { // last, since it can contain the other place
		text = strings.ReplaceAll(text, SubjectPlace, t.encode(subject))
	}
	return text
}

func (t *template) isFixed() bool {
	return !strings.Contains(t.text, SubjectPlace) && !strings.Contains(t.text, CostPlace)
}

func verbatim(subject string) string { return subject }

// inURL encodes a subject so that it means the same in a path and in a query. A part of a path that is "." or ".." would
// mean another path.
func inURL(subject string) string {
	if subject == "." || subject == ".." {
		return strings.ReplaceAll(subject, ".", "%2E")
	}
	return strings.ReplaceAll(url.QueryEscape(subject), "+", "%20")
}

// inHeader encodes a subject that could end the line, or whose spaces a server would drop.
func inHeader(subject string) string {
	isControl := func(r rune) bool { return r < ' ' || r == 0x7f }
	if strings.ContainsFunc(subject, isControl) || strings.Trim(subject, " ") != subject {
		return inURL(subject)
	}
	return subject
}

// inJSON encodes a subject as the inside of a JSON string.
func inJSON(subject string) string {
	quoted, _ := json.Marshal(subject) // cannot fail for a string
	return string(quoted[1 : len(quoted)-1])
}

// parseTarget reads the URL of an endpoint. The template is for the request line.
func parseTarget(text string) (*url.URL, template, error) {
	// The places are not valid in a URL, so words replace them meanwhile. Only a path or a query can have them.
	const subject, cost = "limitctl-place-of-subject", "limitctl-place-of-cost"
	_, err := url.Parse(text)
	u, _ := url.Parse(strings.NewReplacer(SubjectPlace, subject, CostPlace, cost).Replace(text))
	if err != nil || u == nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, template{}, store.Invalidf("the URL of the endpoint cannot be read; write http://HOST/PATH")
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); err != nil && u.Port() != "" {
		return nil, template{}, store.Invalidf("the port %s of the URL is out of range", u.Port())
	}
	if strings.ContainsAny(u.Path+u.RawQuery, "{}") {
		return nil, template{}, store.Invalidf("%q has braces that are not a place; the places are %s and %s, and %%7B is a brace",
			RedactURL(text), SubjectPlace, CostPlace)
	}
	u.Fragment, u.RawFragment = "", "" // it is never sent
	target := strings.NewReplacer(subject, SubjectPlace, cost, CostPlace).Replace(u.RequestURI())
	return u, template{target, inURL}, nil
}
