package backup

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// usual are lines in the form in which records are written.
var usual = []string{
	`{"key":"a:1","name":"n","value":"UkwB","expires_ms":1795372468499}`,
	`{"key":"müller","name":"n","value":"","expires_ms":-1}`,
	`{"key":"a","name":"kong/minute","value":null,"parts":[{"store_key":"cmF0","type":"string","dump":"ABI=","expires_ms":5}],` +
		`"expires_ms":-1}`,
	`{"key":"a","name":"n","value":null,"parts":[{"store_key":"cmF0","field":"YQ==","type":"hash","dump":"ABI=","expires_ms":-1},` +
		`{"store_key":"YWI=","type":"zset","dump":"","expires_ms":0}],"limit":"token-bucket:10/1m","used":7,"expires_ms":-1}`,
}

// byJSON reads a line with encoding/json.
func byJSON(text []byte) (*line, error) {
	l := &line{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return l, decoder.Decode(l)
}

func TestQuickLine(t *testing.T) {
	for _, text := range usual {
		want, err := byJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []string{"", "\n"} {
			if got, ok := quickLine([]byte(text + end)); !ok || !reflect.DeepEqual(got, want) {
				t.Errorf("%s is read as %+v, %v", text, got, ok)
			}
		}
		written, err := json.Marshal(want)
		if err != nil || string(written) != text {
			t.Errorf("it is not written so, but %s, %v", written, err)
		}
	}
}

// The quick reader gives the result of encoding/json, for any line.
func FuzzQuickLine(f *testing.F) {
	for _, text := range usual {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"key":"\u00e4","name":"n","value":"","expires_ms":01}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := quickLine(text)
		if !ok {
			return
		}
		if want, err := byJSON(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %+v, and by encoding/json as %+v, %v", text, got, want, err)
		}
	})
}
