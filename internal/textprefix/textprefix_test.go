package textprefix

import "testing"

func TestOf(t *testing.T) {
	for _, test := range []struct {
		text  string
		bytes int
		want  string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""}, {"abc", -1, ""},
		{"日本", 6, "日本"}, {"日本", 5, "日"}, {"日本", 3, "日"}, {"日本", 2, ""},
		{"a\xff\xfe", 2, "a\xff"}, {"\x80\x80\x80", 2, ""},
	} {
		if got := Of(test.text, test.bytes); got != test.want {
			t.Errorf("the first %d bytes of %q are %q, want %q", test.bytes, test.text, got, test.want)
		}
	}
}
