package texts

import "testing"

func TestPrefix(t *testing.T) {
	for _, test := range []struct {
		text  string
		bytes int
		want  string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""}, {"abc", -1, ""},
		{"日本", 6, "日本"}, {"日本", 5, "日"}, {"日本", 3, "日"}, {"日本", 2, ""},
		{"a\xff\xfe", 2, "a\xff"}, {"\x80\x80\x80", 2, ""},
	} {
		if got := Prefix(test.text, test.bytes); got != test.want {
			t.Errorf("the first %d bytes of %q are %q, want %q", test.bytes, test.text, got, test.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"limit", "limits", "algorithm", "burst"}
	for _, test := range []struct {
		name string
		most int
		want string
	}{
		{"limt", 1, "limit"},
		{"limitss", 1, "limits"},
		{"algorythm", 1, "algorithm"},
		{"algorhytm", 2, ""},
		{"algorhytm", 3, "algorithm"},
		{"bursting", 2, ""},
		{"bursting", 3, "burst"},
		{"", 3, ""},
		{"limit", 0, "limit"},
		{"a very long name that is nothing like any of them", 3, ""},
	} {
		if got := Nearest(test.name, names, test.most); got != test.want {
			t.Errorf("Nearest(%q, most %d) = %q, want %q", test.name, test.most, got, test.want)
		}
	}
}
