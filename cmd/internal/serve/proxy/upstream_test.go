package proxy

import (
	"strings"
	"testing"
)

func TestParseUpstream(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:3000":    "http://127.0.0.1:3000",
		"https://app.internal/api": "https://app.internal/api",
		"http://[::1]:3000/":       "http://[::1]:3000/",
		"unix:/run/app.sock":       "unix:/run/app.sock",
		"unix:///run/app.sock":     "unix:/run/app.sock",
		"":                         "! http://127.0.0.1:3000",
		"127.0.0.1:3000":           "! http://127.0.0.1:3000",
		"localhost:3000":           "! http://127.0.0.1:3000",
		"ftp://a":                  "! http://127.0.0.1:3000",
		"http://:3000":             "! http://127.0.0.1:3000",
		"http://a?b":               "! ends with its path",
		"http://a?":                "! ends with its path",
		"http://a#b":               "! ends with its path",
		"http://me:secret@a":       "! user or password",
		"http://%zz":               "! http://127.0.0.1:3000",
		"unix:run/app.sock":        "! begins with /",
	} {
		u, err := ParseUpstream(text)
		if part, wrong := strings.CutPrefix(want, "! "); wrong {
			if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: error %v, want one with %q", text, err, part)
			}
			continue
		}
		if err != nil || u.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, u, err, want)
		}
	}
}
