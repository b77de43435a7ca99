package output

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/texts"
)

// through returns text as people see it, written in parts of that size.
func through(text string, styles bool, part int) string {
	var b bytes.Buffer
	t := NewTerminal(&b, styles)
	for rest := text; rest != ""; {
		n := min(part, len(rest))
		t.Write([]byte(rest[:n]))
		rest = rest[n:]
	}
	t.Flush()
	return b.String()
}

func TestTerminal(t *testing.T) {
	for _, test := range []struct {
		text   string
		styles bool
		want   string
	}{
		{"plain text\n\twith lines\n", false, "plain text\n\twith lines\n"},
		{"é 漢字 😀 ❤\ufe0f ░█ ✓ →", false, "é 漢字 😀 ❤\ufe0f ░█ ✓ →"},
		{"\x1b]0;PWNED\x07", true, `\x1b]0;PWNED\a`},
		{"\x1b[32mgood\x1b[0m", true, "\x1b[32mgood\x1b[0m"},
		{"\x1b[1;33mgood\x1b[0m", true, "\x1b[1;33mgood\x1b[0m"},
		{"\x1b[32mgood\x1b[0m", false, `\x1b[32mgood\x1b[0m`},
		{"\x1b[8mhidden", true, `\x1b[8mhidden`},
		{"\x1b[31mred\nplain", true, "\x1b[31mred\x1b[0m\nplain"},
		{"\x1b[1;1;1;1;1;1m", true, `\x1b[1;1;1;1;1;1m`},
		{"\x1b[3", true, `\x1b[3`},
		{"\x1b", true, `\x1b`},
		{"\x1b[mx", true, `\x1b[mx`},
		{"a\rb\vc\fd\x85e\u0085f\u009b31m\x7f", false, `a\rb\vc\fd\x85e\u0085f\u009b31m\x7f`},
		{"\u202e\u2066\u200b\u200d\u2028\ufeff\u00ad\u3164\U000e0041", false,
			`\u202e\u2066\u200b\u200d\u2028\ufeff\u00ad\u3164\U000e0041`},
		{"\xff\xc3(\xe2\x80", false, `\xff\xc3(\xe2\x80`},
		{"\ufffd", false, "\ufffd"},
	} {
		for part := 1; part <= 7; part++ {
			if got := through(test.text, test.styles, part); got != test.want {
				t.Errorf("%q in parts of %d: %q, want %q", test.text, part, got, test.want)
			}
		}
	}
}

// obeyed returns the first thing in text that a terminal would obey, or "".
func obeyed(text string, styles bool) string {
	if styles {
		for _, style := range []Style{Calm, Near, AtEnd, Faint, Bold, "0"} {
			text = strings.ReplaceAll(text, "\x1b["+string(style)+"m", "")
			text = strings.ReplaceAll(text, "\x1b[1;"+string(style)+"m", "")
		}
	}
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd") || r != '\n' && r != '\t' &&
			!texts.IsVisible(r) {
			return strconv.Quote(text[i:min(len(text), i+20)])
		}
	}
	return ""
}

func TestNothingGetsThroughTheDoor(t *testing.T) {
	for _, text := range hostiletext.Texts() {
		for _, styles := range []bool{false, true} {
			if got := through("a "+text+" b\n", styles, 3); obeyed(got, styles) != "" {
				t.Errorf("%q comes out as %q", text, got)
			}
		}
		if got := Escape(text); obeyed(got, false) != "" || strings.ContainsAny(got, "\n\t") || Escape(got) != got {
			t.Errorf("Escape(%q) = %q", text, got)
		}
		got := Printable(text)
		if obeyed(got, false) != "" || strings.ContainsAny(got, "\n\t") || Printable(got) != got {
			t.Errorf("Printable(%q) = %q", text, got)
		}
		if got != text {
			if back, err := strconv.Unquote(got); err != nil || back != text {
				t.Errorf("Printable(%q) = %q, which says %q, %v", text, got, back, err)
			}
		}
		var b bytes.Buffer
		(&Printer{Out: &b, Color: true}).Line("%s", text)
		if strings.Count(b.String(), "\n") != 1 || !strings.HasSuffix(b.String(), "\n") {
			t.Errorf("as a line %q is %q", text, b.String())
		}
	}
}
