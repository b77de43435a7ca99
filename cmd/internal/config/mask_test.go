package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// styles are ways to write a password into a configuration.
func styles() []string {
	return []string{
		"contexts:\n  prod:\n    store: redis://u:SECRET@h:6379/0\n    read_only: nope\n",
		"contexts:\n  prod:\n    store: \"redis+sentinel://u:p@h/m?sentinel_password=SECRET\"\n    colour: red\n",
		"contexts:\n  prod: {store: 'redis://:SECRET@h', protect: true}\n",
		"contexts: {prod: {store: redis://u:SECRET@h, prefix: a}, eu: {stor: b}}\n",
		"{\"contexts\": {\"prod\": {\"store\": \"redis://:SECRET@h\",\n \"x\": 1}}}\n",
		"contexts:\n  prod:\n    store: >-\n      redis://u:SECRET@h\n    colour: red\n",
		"contexts:\n  prod:\n    store: |\n      redis://u:SECRET@h\n      more\n    colour: red\n",
		"contexts:\n  prod:\n    store:\n      redis://u:SECRET@h\n    colour: red\n",
		"contexts:\n  prod:\n    store: \"redis://u:\\\n      SECRET@h\"\n    colour: red\n",
		"contexts:\n  prod:\n    store: redis://h\n    password: SECRET\n    password_file: /SECRET\n",
		"contexts:\n  prod:\n    store: redis://h\n    pasword: *SECRET\n    passwd: !SECRET x\n    secret: &SECRET x\n",
		"# store: redis://u:SECRET@h\npolicies:\n  # password: SECRET\n  login: x\ncontexts:\n  a: {} # redis://:SECRET@h\n",
		"login: &url redis://u:SECRET@h\ncontexts:\n  prod: {store: *url, colour: red}\n",
		"prefix: rl\npolicies:\n  login:\n    limits: []\ncontexts:\n  \"redis://:SECRET@eu\": {store: redis://eu}\n",
		"policies:\n  prod:\n    store: redis://u:SECRET@h\n    colour: red\n",
		"contexts:\n  prod:\n    store:\n      - redis://u:SECRET@h\n    store: redis://u:SECRET@h\n",
		"contexts:\n  prod:\n    url: 'redis://u:SECRET@h'\n    ? SECRET\n    : SECRET\n",
	}
}

// leak returns what of a secret a text has that it can have from nowhere else.
func leak(text, secret string) string {
	const size = 4
	for i := 0; i+size <= len(secret); i++ {
		if part := secret[i : i+size]; strings.ContainsAny(part, "QZJVWK") && strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// said is all that is said of a file's mistakes.
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
	for i, style := range styles() {
		for _, secret := range []string{"ZQuite-Zecret", "Z'Q \"W K&J", "ZQ ZQ ZQ", "Q%41%42Q", "ZQ, WKJV: QQQQ", "*ZQZQZQ", "ZQZQ#QZQZ", "Ä€QZß😀QZ"} {
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

// What is shown is shown where it was, so that a caret still points there.
func TestMaskKeepsPlaces(t *testing.T) {
	for line, want := range map[string]string{
		"contexts:":                        "contexts:",
		"contexts:  # redis://h":           "contexts:  #**********",
		"  prod:":                          "  prod:",
		"    store: redis://ü:p@h":         "    store: redis://*****",
		"    store: 'redis://u'":           "    store: 'redis://**",
		"    read_only: yes":               "    read_only: yes",
		"    prefix: [a]":                  "    prefix: ***",
		"    password_file: /x":            "    password_file: **",
		"  - just text":                    "  - *********",
		"prefix: rl":                       "prefix: rl",
		"policies:":                        "policies:",
		"\tstore: x":                       "\tstore: *",
		"# redis://u":                      "#**********",
		"poliecs: # of http, not of redis": "poliecs: #**********************",
	} {
		if got := maskSecrets([]string{line})[0]; got != want {
			t.Errorf("%q is shown as %q, want %q", line, got, want)
		}
	}
}

// A configuration that is broken anywhere shows no password.
func FuzzMistakesHoldNoPassword(f *testing.F) {
	f.Add(uint8(0), "ZQZQ-QJVW", uint16(9), uint8(0), byte('x'))
	f.Add(uint8(5), "ZQ'Z Q\"WK@J", uint16(30), uint8(1), byte('\n'))
	f.Add(uint8(10), "ZQZQ&QJVW", uint16(3), uint8(2), byte(':'))
	f.Fuzz(func(t *testing.T, style uint8, secret string, at uint16, how uint8, with byte) {
		if len(secret) > 60 || strings.Contains(secret, ":") {
			return // a text like "a: b" is a field wherever it stands
		}
		all := styles()
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

// unquoted is a text without the escapes of Go's quotes.
func unquoted(text string) string {
	plain, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.ReplaceAll(text, "\n", `\n`), `"`, "") + `"`)
	if err != nil {
		return text
	}
	return plain
}
