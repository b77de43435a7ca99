package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestKeyValidate(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	const delimits = ", which delimits the subject in a key; leave it out"
	for _, test := range []struct {
		key  Key
		want string // the error, empty if key is valid
	}{
		{Key{"user:42", "login/ip-minute"}, ""},
		{Key{" ", " "}, ""},
		{Key{"ünïcødé 用户", "名"}, ""},
		{Key{`*?[]\^-|~'"`, `*?[]\^-|~'"`}, ""},
		{Key{long(MaxSubjectLength), long(MaxNameLength)}, ""},
		{Key{long(MaxSubjectLength + 1), ""}, `subject "xxxxxxxxxxxxxxxxxxxx"… is 1025 bytes long; at most 1024 fit`},
		{Key{"x", long(MaxNameLength + 1)}, `name "xxxxxxxxxxxxxxxxxxxx"… is 1025 bytes long; at most 1024 fit`},
		{Key{strings.Repeat("é", MaxSubjectLength/2), strings.Repeat("é", MaxNameLength/2)}, ""},
		{Key{strings.Repeat("\n", MaxSubjectLength+1), ""}, `subject "` + strings.Repeat(`\n`, 20) +
			`"… is 1025 bytes long; at most 1024 fit`},
		{Key{"", ""}, "subject is empty; it needs at least one character"},
		{Key{"a{b", ""}, `subject "a{b" contains '{'` + delimits},
		{Key{"x", "{y"}, `name "{y" contains '{'` + delimits},
		{Key{"a\nb", ""}, `subject "a\nb" contains the control character U+000A; leave it out`},
		{Key{"x", "\x7f"}, `name "\x7f" contains the control character U+007F; leave it out`},
		{Key{"\u0085", ""}, `subject "\u0085" contains the control character U+0085; leave it out`},
		{Key{"a\xff", ""}, `subject "a\xff" is not valid UTF-8`},
	} {
		err := test.key.Validate()
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%q: %v", test.key, err)
		case test.want != "" && (err == nil || err.Error() != test.want || !errors.Is(err, ErrInvalid)):
			t.Errorf("%q: the error is\n  %v\nnot\n  %s", test.key, err, test.want)
		}
	}
}

func TestValidatePrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		DefaultPrefix:                          "",
		"my app:v2":                            "",
		strings.Repeat("x", MaxPrefixLength):   "",
		strings.Repeat("x", MaxPrefixLength+1): `prefix "xxxxxxxxxxxxxxxxxxxx"… is 257 bytes long; at most 256 fit`,
		"a{b":                                  `prefix "a{b" contains '{', which delimits the subject in a key; leave it out`,
	} {
		if err := ValidatePrefix(prefix); fmt.Sprint(err) != want && (err != nil || want != "") {
			t.Errorf("%q: the error is\n  %v\nnot\n  %s", prefix, err, want)
		}
	}
}
