package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// styles are ways to write a password, "SECRET", in a configuration.
func styles(t testing.TB) (styles []string) {
	t.Helper()
	files, err := filepath.Glob(testdata + "passwords/*.yaml")
	if err != nil || len(files) < 17 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		styles = append(styles, string(text))
	}
	return styles
}

// leak returns a part of a secret that a text can have only from the secret.
func leak(text, secret string) string {
	const size = 4
	for i := 0; i+size <= len(secret); i++ {
		if part := secret[i : i+size]; strings.ContainsAny(part, "QZJVWK") && strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// said returns all texts about a file's mistakes.
func said(t *testing.T, data string) string {
	t.Helper()
	check := func(url string) error { return fmt.Errorf("it is no store") }
	_, err := Parse("x.yaml", []byte(data), check)
	var mistakes *Mistakes
	if err != nil && !errors.As(err, &mistakes) {
		t.Fatalf("%T: %v", err, err)
	}
	if err == nil {
		return ""
	}
	var b strings.Builder
	for i := range mistakes.List {
		b.WriteString(mistakes.List[i].Text + "\n" + mistakes.List[i].Excerpt)
	}
	return b.String()
}

func TestMistakesHoldNoPassword(t *testing.T) {
	for i, style := range styles(t) {
		for _, secret := range []string{"ZQuite-Zecret", "Z'Q \"W K&J", "ZQ ZQ ZQ", "Q%41%42Q", "ZQ, WKJV: QQQQ", "*ZQZQZQ",
			"ZQZQ#QZQZ", "Ä€QZß😀QZ"} {
			text := said(t, strings.ReplaceAll(style, "SECRET", secret))
			if part := leak(text, secret); part != "" {
				t.Errorf("style %d with %q shows %q:\n%s", i, secret, part, text)
			}
			if text == "" {
				t.Errorf("style %d with %q has no mistake", i, secret)
			}
		}
	}
}

// A configuration that is broken anywhere shows no password.
func FuzzMistakesHoldNoPassword(f *testing.F) {
	f.Add(uint8(0), "ZQZQ-QJVW", uint16(9), uint8(0), byte('x'))
	f.Add(uint8(5), "ZQ'Z Q\"WK@J", uint16(30), uint8(1), byte('\n'))
	f.Add(uint8(10), "ZQZQ&QJVW", uint16(3), uint8(2), byte(':'))
	all := styles(f)
	f.Fuzz(func(t *testing.T, style uint8, secret string, at uint16, how uint8, with byte) {
		if len(secret) > 60 || strings.Contains(secret, ":") {
			return // a text like "a: b" is a field anywhere
		}
		template := all[int(style)%len(all)]
		data := strings.ReplaceAll(template, "SECRET", secret)
		place := int(at) % (len(data) + 1)
		switch end := min(place+1, len(data)); how % 3 {
		case 0: // another byte
			data = data[:place] + string([]byte{with}) + data[end:]
		case 1: // one more
			data = data[:place] + string([]byte{with}) + data[place:]
		case 2: // one less
			data = data[:place] + data[end:]
		}
		text := said(t, data)
		for _, shown := range []string{text, unquoted(text)} {
			if part := leak(shown, secret); part != "" {
				t.Errorf("%q of %q is shown, of\n%s\n%s", part, secret, data, text)
			}
		}
	})
}

// unquoted removes the escapes of Go's quotes.
func unquoted(text string) string {
	plain, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.ReplaceAll(text, "\n", `\n`), `"`, "") + `"`)
	if err != nil {
		return text
	}
	return plain
}
