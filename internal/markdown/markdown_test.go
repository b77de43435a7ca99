package markdown

import "testing"

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"token-bucket 100/1s": "token-bucket 100/1s",
		"p99<5ms: 7.2ms":      `p99\<5ms: 7.2ms`,
		"# heading":           `\# heading`,
		"a | b\nc":            `"a \| b\\nc"`,
		"<img src=x> *b* _c_": `\<img src=x\> \*b\* \_c\_`,
		"[a](http://b)":       `\[a\](http://b)`,
	} {
		got := Text(text)
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestCode(t *testing.T) {
	for text, want := range map[string]string{
		"user:1":   "`user:1`",
		"a|b":      "`a\\|b`",
		"a`b":      "``a`b``",
		"`":        "`` ` ``",
		"@octocat": "`@octocat`",
		"":         "",
	} {
		if got := Code(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
