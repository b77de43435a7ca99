package spelling

import "testing"

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
