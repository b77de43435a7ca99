package redisserver

import (
	"reflect"
	"testing"
)

func TestShown(t *testing.T) {
	for text, want := range map[string]struct{ redacted, bare string }{
		"redis://localhost:6379":            {"", ""},
		"redis://:hunter2@localhost:6379/0": {"redis://:xxxxx@localhost:6379/0", "redis://localhost:6379/0"},
		"rediss://user:hun@ter:2@localhost": {"rediss://user:xxxxx@localhost", "rediss://user@localhost"},
		"redis+sentinel://u:p@a:1,b:2/m?sentinel_password=pw": {
			"redis+sentinel://u:xxxxx@a:1,b:2/m?sentinel_password=xxxxx",
			"redis+sentinel://u@a:1,b:2/m"},
		"redis+sentinel://h/m?sentinel_username=w&sentinel_password=SECRET1'SECRET2 \"SECRET3&SECRET4&SECRET5=6": {
			"redis+sentinel://xxxxx (it cannot be read)", "redis+sentinel://xxxxx (it cannot be read)"},
		"rediss://u:a'b\"c d&e@h/1?tls_ca=/etc/a%26b c.pem&tls_insecure=false": {
			"rediss://u:xxxxx@h/1?tls_ca=/etc/a%26b%20c.pem&tls_insecure=false",
			"rediss://u@h/1?tls_ca=/etc/a%26b%20c.pem&tls_insecure=false"},
		"redis://h?password=hunter2&hunter3&db=hunter4": {
			"redis://xxxxx (it cannot be read)", "redis://xxxxx (it cannot be read)"},
		"redis://u:pa/ss@h":            {"redis://xxxxx (it cannot be read)", "redis://xxxxx (it cannot be read)"},
		"redis::hunter2@localhost":     {"redis://xxxxx (it cannot be read)", "redis://xxxxx (it cannot be read)"},
		"redis:hunter2://localhost":    {"redis://xxxxx (it cannot be read)", "redis://xxxxx (it cannot be read)"},
		"hunter2://:hunter3@localhost": {"xxxxx (it cannot be read)", "xxxxx (it cannot be read)"},
		"unix://u:p@/run/s?db=1":       {"unix://u:xxxxx@/run/s?db=1", "unix://u@/run/s?db=1"},
		"file:/tmp/a:b@c.db":           {"", ""},
		"":                             {"", ""},
	} {
		if want.redacted == "" {
			want.redacted, want.bare = text, text
		}
		if got := RedactURL(text); got != want.redacted {
			t.Errorf("%s is shown as %s, want %s", text, got, want.redacted)
		}
		if got := WithoutPasswords(text); got != want.bare {
			t.Errorf("%s is without passwords %s, want %s", text, got, want.bare)
		}
	}
}

func TestSecrets(t *testing.T) {
	for text, want := range map[string][]string{
		"redis://u:a%26b@h":          {"a&b"},
		"redis://u:a/b@h?password=c": {"a/b", "c"},
		"redis:hunter2@h":            {"hunter2"},
		"file:a:b@c":                 nil,
		"rediss://":                  nil,
	} {
		if got := URLSecrets(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestIsLocal(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "LOCALHOST.": true, "127.0.0.1": true, "127.9.9.9": true,
		"::1": true, "::ffff:127.0.0.1": true,
		"10.0.0.1": false, "localhost.evil.example": false, "0.0.0.0": false, "": false, "redis": false,
		"fe80::1%eth0": false} {
		if got := IsLocal(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
