package grpc

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// fieldsOf is a message of fields, each of which is bytes.
func fieldsOf(numbersAndValues ...any) string {
	var m []byte
	for i := 0; i < len(numbersAndValues); i += 2 {
		m = appendBytes(m, protowire.Number(numbersAndValues[i].(int)), []byte(numbersAndValues[i+1].(string)))
	}
	return string(m)
}

func TestReflectionFindsWhatThereIs(t *testing.T) {
	low := fieldsOf(1, "low.proto", 2, "low", 4, fieldsOf(1, "M", 2, fieldsOf(1, "field"), 3, fieldsOf(1, "Inner"), 4, fieldsOf(1, "Kind"),
		8, fieldsOf(1, "choice")), 5, fieldsOf(1, "E"))
	middle := fieldsOf(1, "middle.proto", 2, "mid.dle", 3, "low.proto", 4, fieldsOf(1, "M"))
	top := fieldsOf(1, "top.proto", 2, "top", 3, "low.proto", 3, "middle.proto", 6, fieldsOf(1, "S", 2, fieldsOf(1, "Call")))
	other := fieldsOf(1, "other.proto", 2, "other", 6, fieldsOf(1, "S"))
	answer := Reflection([]byte(fieldsOf(1, low, 1, middle, 1, top, 1, other)))

	missing := func(what string) string { return fieldsOf(7, "\x08\x05"+fieldsOf(2, "there is no "+what)) }
	ofLow, ofMiddle := fieldsOf(4, fieldsOf(1, low)), fieldsOf(4, fieldsOf(1, middle, 1, low))
	ofTop := fieldsOf(4, fieldsOf(1, top, 1, middle, 1, low))
	for _, test := range []struct {
		field       int
		about, want string
	}{
		{3, "middle.proto", ofMiddle},
		{3, "top.proto", ofTop},
		{3, "none.proto", missing(`file "none.proto"`)},
		{4, "low.M", ofLow},
		{4, "low.M.Inner", ofLow},
		{4, "low.E", ofLow},
		{4, "mid.dle.M", ofMiddle},
		{4, "top.S.Call", ofTop},
		{4, "top", missing(`symbol "top"`)},
		{4, "top.S.Other", missing(`symbol "top.S.Other"`)},
		{4, "\xff\n", missing(`symbol "\xff\n"`)},
		{5, fieldsOf(1, "low.M") + "\x10\x01", missing("extension")},
		{6, "low.M", fieldsOf(5, fieldsOf(1, "low.M"))},
		{6, "low.E", missing(`message "low.E"`)},
		{7, "", fieldsOf(6, fieldsOf(1, fieldsOf(1, "top.S"), 1, fieldsOf(1, "other.S")))},
	} {
		asked := fieldsOf(1, "a host", test.field, test.about)
		got, err := answer([]byte(asked), []byte("kept"))
		if err != nil || string(got) != "kept"+fieldsOf(2, asked)+test.want {
			t.Errorf("%d %q: %q, %v", test.field, test.about, got, err)
		}
	}
	for _, bad := range []string{"", "x", "\x08\x01", "\x1a\x05abc", fieldsOf(1, "a host"), fieldsOf(2, "x", 8, "y"), "\x22\x01a\xff"} {
		_, err := answer([]byte(bad), nil)
		if status, is := errors.AsType[*Status](err); !is || status.Code != InvalidArgument {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
