package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// strictBody is a body for encoding/json.
type strictBody struct {
	Key        string            `json:"key"`
	Limits     []string          `json:"limits"`
	Policy     string            `json:"policy"`
	Attributes map[string]string `json:"attributes"`
	Cost       int64             `json:"cost"`
	Token      string            `json:"token"`
	TokenTTL   string            `json:"token_ttl"`
	UpTo       int64             `json:"up_to"`
	Force      bool              `json:"force"`
}

// readStrictly reads a body with encoding/json, as strictly as possible. lax reports that the body has something
// that encoding/json accepts and the scanner does not.
func readStrictly(text string) (body strictBody, lax bool, err error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil {
		return body, false, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return body, false, errors.New("more than one document")
	}
	lax = !utf8.ValidString(text) || hasHalfASurrogate(text)
	// Names that come twice, in another case, or with null.
	names := map[string]bool{}
	tokens, depth := json.NewDecoder(strings.NewReader(text)), 0
	var path []string
	expectName := false
	for {
		token, err := tokens.Token()
		if err != nil {
			break
		}
		switch token := token.(type) {
		case json.Delim:
			if token == '{' || token == '[' {
				depth++
			} else {
				depth--
				path = path[:min(len(path), max(0, depth-1))]
			}
			expectName = token == '{' || depth == 1 || depth > 0 && token == '}'
			continue
		case nil:
			lax = true
		case string:
			inList := depth == 2 && len(path) > 0 && path[0] == "limits"
			if expectName && !inList {
				path = append(path[:min(len(path), depth-1)], token)
				name := strings.Join(path, "\x00")
				lax = lax || names[name] || depth == 1 && !slices.Contains(fieldNames, token)
				names[name] = true
				expectName = false
				continue
			}
		}
		expectName = true
	}
	return body, lax, nil
}

func hasHalfASurrogate(text string) bool {
	// encoding/json puts U+FFFD in its place.
	var plain any
	json.Unmarshal([]byte(text), &plain)
	again, _ := json.Marshal(plain)
	return bytes.Contains(again, []byte("\ufffd")) && !strings.Contains(text, "\ufffd") &&
		!strings.Contains(strings.ToLower(text), `\ufffd`)
}

// FuzzQuestion compares the reading of bodies with encoding/json.
func FuzzQuestion(f *testing.F) {
	for _, body := range []string{
		`{"key":"user:42","limits":["10/1m","sliding-log:100/1h"],"cost":1}`,
		`{"policy":"login","attributes":{"ip":"203.0.113.9","email":"a"},"token":"t","token_ttl":"1m","up_to":3,"force":false}`,
		`{"key":"\u0061\ud83d\ude00\n\/\b","cost":-9223372036854775808}`, "{\"key\":\"\xff\"}", `{"key":"\ud800"}`, `{"cost":1e2}`,
		`{"cost":-0}`, `{"Key":"a"}`, `{"key":null}`, `{"key":"a","key":"b"}`, `{} {}`, `{"limits":[],"attributes":{}}`, `{"cost":01}`,
		`{"attributes":{"limits":"a","ip":"b"},"limits":["ip"]}`, `{"force":truefalse}`, `{"cost":9223372036854775808}`, "\v{}",
	} {
		f.Add(body)
	}
	everything := verb{name: "all", op: store.Take, fields: 1<<len(fieldNames) - 1}
	f.Fuzz(func(t *testing.T, text string) {
		var q question
		err := q.read(&everything, text)
		if err != nil && !errors.Is(err, store.ErrInvalid) {
			t.Fatalf("%q: %v is not the client's mistake", text, err)
		}
		body, lax, wrong := readStrictly(text)
		if err != nil {
			if wrong == nil && !lax && readable(&body) {
				t.Fatalf("%q is refused: %v", text, err)
			}
			return
		}
		if wrong != nil {
			t.Fatalf("%q is read, and encoding/json says: %v", text, wrong)
		}
		attributes := map[string]string{}
		for _, a := range q.attributes {
			attributes[a.Name] = a.Value
		}
		if q.key != body.Key || q.policy != body.Policy || q.cost != body.Cost || q.upTo != body.UpTo || q.force != body.Force ||
			q.token != body.Token || q.tokenTTL != body.TokenTTL || !slices.Equal(q.limits, body.Limits) ||
			!maps.Equal(attributes, body.Attributes) && len(attributes)+len(body.Attributes) > 0 {
			t.Fatalf("%q\n is read as %+v,\nand encoding/json reads %+v", text, q, body)
		}
	})
}

// readable reports whether a body is within the bounds of this package.
func readable(body *strictBody) bool {
	for name, value := range body.Attributes {
		if policy.ValidateName("attribute", name) != nil || value == "" {
			return false
		}
	}
	return len(body.Limits) <= store.MaxRequests && len(body.Attributes) <= mostAttributes
}
