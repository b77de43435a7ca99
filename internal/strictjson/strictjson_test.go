package strictjson

import (
	"strings"
	"testing"
)

// document is what the tests read.
type document struct {
	Key   string            `json:"key"`
	Cost  int64             `json:"cost"`
	Parts []part            `json:"parts"`
	Names map[string]string `json:"names"`
}

type part struct {
	A int `json:"a"`
}

func TestWhatIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		``:                                  "EOF",
		`{"key":"a"`:                        "unexpected EOF",
		`{"key":"a","key":"b"}`:             `"key" is given twice`,
		`{"key":"a","k\u0065y":"b"}`:        `"key" is given twice`,
		`{"parts":[{"a":1},{"a":1,"a":2}]}`: `"a" is given twice`,
		`{"names":{"x":"1","x":"1"}}`:       `"x" is given twice`,
		`{"kye":"a"}`:                       `unknown field "kye"`,
		`{"Key":"a"}`:                       `unknown field "Key"`,
		`{"parts":[{"A":1}]}`:               `unknown field "A"`,
		`{"key":"a"}{}`:                     "something follows its end at byte 12",
		`{"key":"a"}]`:                      "something follows its end",
		`{"key":"a",}`:                      "invalid character '}'",
		`{"key":1}`:                         "cannot unmarshal number",
		`{"cost":1.5}`:                      "cannot unmarshal number 1.5",
		`{"cost":99999999999999999999}`:     "cannot unmarshal number",
		"{\"key\":\"\xff\"}":                "not valid UTF-8",
		"\ufeff{}":                          "invalid character 'ï'",
		`{"key":"\ud83d"}`:                  "half a surrogate pair",
		`{"key":"\ude00\ud83d"}`:            "half a surrogate pair",
		`{"key":"\ud83d\ud83d"}`:            "half a surrogate pair",
		`{"key":"\\\ud83dx"}`:               "half a surrogate pair",
		`{"key":"\ud83d`:                    "half a surrogate pair",
		`{"key":"\`:                         "unexpected EOF",
		`{"names":` + strings.Repeat(`{"a":`, 100_000):            "exceeded max depth",
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000): "exceeded max depth",
	} {
		if err := Decode([]byte(text), new(document)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60q: %v, not %q", text, err, says)
		}
	}
}

func TestWhatIsRead(t *testing.T) {
	for text, key := range map[string]string{
		`{}`: "",
		"\t{ \"key\" : \"a\" , \"cost\" : 1, \"parts\": [ {\"a\":1}, {\"a\":1} ] }\r\n": "a",
		`{"key":"\ud83d\ude00","names":{"key":"1","Key":"2"}}`:                          "😀",
		`{"key":"\\ud83d \uFFFD \\"}`:                                                   "\\ud83d \ufffd \\",
	} {
		var d document
		if err := Decode([]byte(text), &d); err != nil || d.Key != key {
			t.Errorf("%s: %v, key %q", text, err, d.Key)
		}
	}
}
