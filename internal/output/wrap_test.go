package output

import (
	"slices"
	"strings"
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

// The joined parts are the text.
func TestBreak(t *testing.T) {
	for _, text := range []string{"", "a", "redis-cli GETRANGE 'a  b' 0 63", "利用者:山田太郎 and more", strings.Repeat("x", 100)} {
		for width := range 20 {
			lines := Break(text, width)
			if strings.Join(lines, "") != text {
				t.Errorf("%q on %d columns is %q", text, width, lines)
			}
			for _, line := range lines {
				if width > 1 && Width(line) > width {
					t.Errorf("%q is wider than %d columns", line, width)
				}
			}
		}
	}
}
