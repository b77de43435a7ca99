package configfile

import "testing"

// A masked line has the same width, so that a caret keeps its place.
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
