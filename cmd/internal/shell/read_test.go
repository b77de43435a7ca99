package shell

import (
	"slices"
	"testing"
)

func TestReadLine(t *testing.T) {
	for _, test := range []struct {
		line string
		want []string
	}{
		{"", []string{""}},
		{"limitctl", []string{"limitctl"}},
		{"limitctl  inspect ", []string{"limitctl", "inspect", ""}},
		{`limitctl inspect tenant:a`, []string{"limitctl", "inspect", "tenant:a"}},
		{`limitctl inspect 'tenant:a b`, []string{"limitctl", "inspect", "tenant:a b"}},
		{`limitctl inspect "tenant:'a`, []string{"limitctl", "inspect", "tenant:'a"}},
		{`a "b\"c\d" 'e\'f\ g \`, []string{"a", `b"c\d`, `e\f g`, ""}},
		{`a $'b\x41\101\u00e9\'\q' c`, []string{"a", `bAAé'\q`, "c"}},
		{`a $(touch PWNED) --ex`, []string{"a", "$(touch PWNED)", "--ex"}},
		{`a "$(touch "x y" ')')" b`, []string{"a", `$(touch "x y" ')')`, "b"}},
		{"a `touch PWNED` \"`x y`\" ${x:- y} b", []string{"a", "`touch PWNED`", "`x y`", "${x:- y}", "b"}},
		{`a <(cat x y) b`, []string{"a", "<(cat x y)", "b"}},
		{`a "b$'c' d" e`, []string{"a", "b$'c' d", "e"}},
		{`a b>out c`, []string{"a", "b", "c"}},
		{`a 2>/dev/null b >&2 "c`, []string{"a", "b", "c"}},
		{"a \"\\\nb\" \\\nc", []string{"a", "b", "c"}},
		{`a "b\`, []string{"a", `b\`}},
		{`a $(b \`, []string{"a", `$(b \`}},
	} {
		if got := ReadLine(test.line); !slices.Equal(got.Words, test.want) || got.ToFile {
			t.Errorf("ReadLine(%s) = %q, want %q", test.line, got.Words, test.want)
		}
	}
	if got := ReadLine(`a b > "x`); !got.ToFile || !slices.Equal(got.Words, []string{"a", "b", "x"}) {
		t.Errorf("the file to write to: %+v", got)
	}
}

func TestIsPlain(t *testing.T) {
	for _, word := range []string{"user:42", "tenant:acme:user@example.com", "a=b", "tenant=", "--store=redis://x",
		"利用者:山田太郎", "שלום",
		"1.5", "a+b,c", "_", "-"} {
		if !IsPlain(word) {
			t.Errorf("%q is plain", word)
		}
	}
	for _, word := range []string{"", "=ls", "a==ls", "a:=ls", "a\u0301", "\uffa0", "\u115f", "²", "😀", "\xff"} {
		if IsPlain(word) {
			t.Errorf("%q is not plain", word)
		}
	}
}
