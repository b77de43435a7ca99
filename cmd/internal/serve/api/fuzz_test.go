package api

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

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

// readStrictly reads a body with encoding/json, as strictly as possible.
func readStrictly(text string) (body strictBody, err error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil {
		return body, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return body, errors.New("more than one document")
	}
	return body, nil
}

// FuzzQuestion compares the reading of bodies with encoding/json. What is refused is the matter of other tests.
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
		if err != nil {
			return
		}
		body, wrong := readStrictly(text)
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
