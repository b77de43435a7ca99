package trace

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Of a JSON object the fields are those that encoding/json finds. What is cut off, or is none, is no object.
func FuzzScanObject(f *testing.F) {
	for _, text := range []string{
		`{}`, `{ }`, `{"a" : [1, {"b":[]}, "]"] }`, `{"a":-0.0e-1}`, `{"a":true,"b":false,"c":null}`,
		`{"a":{"b":1},"c":[ ] }`,
		`{"a":"\u00e9\"\\\/\b\f\n\r\t"}`, `{"a\"b":"","a\"b":2}`, "{\"a\":\"\x7f\xff\xc3\"}",
		"{\n\t\"a\"\r:\n2\t,\"b\":3}", `{"a":"0123456789abcdef\"0123456"}`, `{"a":"` + strings.Repeat("€", 9) + `"}`,
	} {
		f.Add([]byte(text))
	}
	for _, none := range []string{
		``, `{`, `[]`, `"a"`, ` {"a":1}`, `{"a":1}x`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":[1}`,
		`{"a":{"b":1}`, `{"a":]}`,
		`{"a":1"b"}`, `{"a":1 2}`, `{"a":1[2]}`, `{"a":"\"}`, `{"a":"`, "{\"a\":\"\x1f\"}", "{\"a\":\"12345678\x1f\"}",
		`{"a":["]}`,
	} {
		if _, is := scanObject(nil, []byte(none)); is {
			f.Errorf("%q is an object", none)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fields, is := scanObject(nil, text)
		if !json.Valid(text) || text[0] != '{' || text[len(text)-1] != '}' {
			return
		}
		if !is {
			t.Fatalf("%.100q is no object", text)
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		_, _ = decoder.Token()
		for i := 0; decoder.More(); i++ {
			name, _ := decoder.Token()
			var value json.RawMessage
			if err := decoder.Decode(&value); err != nil {
				t.Fatal(err)
			}
			if i >= len(fields) || !fields[i].isNamed(name.(string)) &&
				strings.ToValidUTF8(string(fields[i].name), "�") != name ||
				!bytes.Equal(fields[i].value, value) {
				t.Fatalf("%.100q: field %d is not %q: %s", text, i, name, value)
			}
			fields[i].value = nil
		}
		if left := slices.IndexFunc(fields, func(f jsonField) bool { return f.value != nil }); left >= 0 {
			t.Fatalf("%.100q: there is no field %d", text, left)
		}
	})
}
