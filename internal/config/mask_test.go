package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// styles are ways to write a password, "SECRET", in a configuration.
func styles(t *testing.T) (styles []string) {
	t.Helper()
	files, err := filepath.Glob(testdata + "passwords/*.yaml")
	if err != nil || len(files) < 17 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text := must(os.ReadFile(file))
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
		b.WriteString(mistakes.List[i].Text + "\n")
	}
	return b.String()
}

func TestMistakesHoldNoPassword(t *testing.T) {
	for i, style := range styles(t) {
		for _, secret := range []string{"ZQuite-Zecret", "Z'Q \"W K&J", "ZQ ZQ ZQ", "Q%41%42Q", "ZQ, WKJV: QQQQ",
			"*ZQZQZQ",
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
