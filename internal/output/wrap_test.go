package output

import (
	"slices"
	"testing"
)

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  []string
	}{
		{"one two three", 0, []string{"one two three"}},
		{"one two three", 13, []string{"one two three"}},
		{"one two three", 12, []string{"one two", "three"}},
		{"one two three", 3, []string{"one", "two", "thr", "ee"}},
		{"a long_word_that_does_not_fit b", 10, []string{"a", "long_word_", "that_does_", "not_fit b"}},
		{"日本語 x", 4, []string{"日本", "語 x"}},
		{"日本", 1, []string{"日本"}}, // not even one character fits
		{"", 5, []string{""}},
	} {
		if got := Wrap(test.text, test.width); !slices.Equal(got, test.want) {
			t.Errorf("Wrap(%q, %d) = %q, want %q", test.text, test.width, got, test.want)
		}
	}
}
