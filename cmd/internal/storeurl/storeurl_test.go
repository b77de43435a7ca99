package storeurl

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestShown(t *testing.T) {
	for text, want := range map[string]struct{ redacted, bare string }{
		"redis://localhost:6379":            {"", ""},
		"redis://:hunter2@localhost:6379/0": {"redis://:xxxxx@localhost:6379/0", "redis://localhost:6379/0"},
		"rediss://user:hun@ter:2@localhost": {"rediss://user:xxxxx@localhost", "rediss://user@localhost"},
		"redis://user@localhost":            {"", ""},
		"redis+sentinel://u:p@a:1,b:2/m?sentinel_password=pw": {"redis+sentinel://u:xxxxx@a:1,b:2/m?sentinel_password=xxxxx",
			"redis+sentinel://u@a:1,b:2/m"},
		"redis+sentinel://h/m?sentinel_username=w&sentinel_password=SECRET1'SECRET2 \"SECRET3&SECRET4&SECRET5=6": {
			"redis+sentinel://h/m?sentinel_username=w&sentinel_password=xxxxx&xxxxx&xxxxx",
			"redis+sentinel://h/m?sentinel_username=w"},
		"rediss://u:a'b\"c d&e@h/1?tls_ca=/etc/a%26b c.pem&tls_insecure=false": {
			"rediss://u:xxxxx@h/1?tls_ca=/etc/a%26b%20c.pem&tls_insecure=false",
			"rediss://u@h/1?tls_ca=/etc/a%26b%20c.pem&tls_insecure=false"},
		"redis://h?password=hunter2&hunter3&db=hunter4": {"redis://h?xxxxx&xxxxx&xxxxx", "redis://h"},
		"redis://h?db=3&tls_insecure=hunter2":           {"redis://h?db=3&xxxxx", "redis://h?db=3"},
		"redis://u:pa%zz@h":                             {"redis://xxxxx (it cannot be read)", "redis://xxxxx (it cannot be read)"},
		"redis://u:pa/ss@h":                             {"redis://xxxxx (it cannot be read)", "redis://xxxxx (it cannot be read)"},
		"redis://user:hunter2":                          {"redis://xxxxx (it cannot be read)", "redis://xxxxx (it cannot be read)"},
		"redis://h/hunter2":                             {"redis://xxxxx (it cannot be read)", "redis://xxxxx (it cannot be read)"},
		"redis+cluster://h,i/hunter2": {"redis+cluster://xxxxx (it cannot be read)",
			"redis+cluster://xxxxx (it cannot be read)"},
		"redis::hunter2@localhost":     {"redis://xxxxx (it cannot be read)", "redis://xxxxx (it cannot be read)"},
		"hunter2://:hunter3@localhost": {"xxxxx (it cannot be read)", "xxxxx (it cannot be read)"},
		"hunter2:hunter3@localhost":    {"xxxxx (it cannot be read)", "xxxxx (it cannot be read)"},
		"hunter2@localhost":            {"xxxxx (it cannot be read)", "xxxxx (it cannot be read)"},
		"unix://u:p@/run/s?db=1":       {"unix://u:xxxxx@/run/s?db=1", "unix://u@/run/s?db=1"},
		"file:/tmp/a:b@c.db":           {"", ""},
		"memory:":                      {"", ""},
		"localhost":                    {"", ""},
		"":                             {"", ""},
	} {
		if want.redacted == "" {
			want.redacted, want.bare = text, text
		}
		if got := Redact(text); got != want.redacted {
			t.Errorf("%s is shown as %s, want %s", text, got, want.redacted)
		}
		if got := WithoutPasswords(text); got != want.bare {
			t.Errorf("%s is without passwords %s, want %s", text, got, want.bare)
		}
	}
}

func TestSecrets(t *testing.T) {
	for text, want := range map[string][]string{
		"redis://u:a%26b@h": {"a&b"},
		"redis+sentinel://:a@h/m?sentinel_username=u&sentinel_password=b": {"a", "b"},
		"redis://u:a/b@h?password=c":                                      {"a/b", "c"},
		"redis:hunter2@h":                                                 {"hunter2"},
		"file:a:b@c":                                                      nil,
	} {
		if got := Secrets(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestIsLocal(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "LOCALHOST.": true, "127.0.0.1": true, "127.9.9.9": true,
		"::1": true, "::ffff:127.0.0.1": true,
		"10.0.0.1": false, "localhost.evil.example": false, "0.0.0.0": false, "": false, "redis": false, "fe80::1%eth0": false} {
		if got := IsLocal(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

// shows returns a part of a secret that a text contains.
func shows(text, secret string) string {
	const size = 4
	for i := 0; i+size <= len(secret); i++ {
		if strings.Contains(text, secret[i:i+size]) {
			return secret[i : i+size]
		}
	}
	return ""
}

// For any login and password, escaped or not, the password is not shown; and without it the URL is still of the
// same store.
func FuzzShown(f *testing.F) {
	f.Add("redis+sentinel", "user", "hunter2", "hunter3'x y", "h:1,[::1]", "/m/2", true)
	f.Add("rediss", "", "a@b/c?d#e%", "", "h", "/1", false)
	f.Add("redis+cluster", "u:v@w", "&=&", "x&y", "h,i:7", "", true)
	f.Add("unix", "u", "\x00\xff", "", "", "/run/s", true)
	f.Fuzz(func(t *testing.T, scheme, user, password, sentinel, hosts, path string, escaped bool) {
		escape := func(text string) string { return text }
		if escaped {
			escape = func(text string) string { return strings.ReplaceAll(url.PathEscape(text), "&", "%26") }
		}
		login := ""
		if user != "" || password != "" {
			login = url.User(user).String() + ":" + escape(password) + "@"
		}
		name := url.User(user).String() // it can look like the password with the mark behind it
		base := scheme + "://" + name + ":" + hidden + "@" + name + "@" + hosts + path
		text := scheme + "://" + login + hosts + path
		if sentinel != "" {
			text += "?" + SentinelPassword + "=" + escape(sentinel)
		}
		if strings.Contains(hosts+path, "@") || strings.Contains(password+sentinel, "xx") {
			return // that is a login, and its replacement
		}
		for what, shown := range map[string]string{"redacted": Redact(text), "bare": WithoutPasswords(text)} {
			rest := strings.ReplaceAll(shown, SentinelPassword+"="+hidden, "")
			for _, secret := range []string{password, sentinel, url.PathEscape(password), url.PathEscape(sentinel)} {
				if part := shows(rest, secret); part != "" && shows(base+hidden+" (it cannot be read)", part) == "" {
					t.Errorf("%q %s is %q, which shows %q", text, what, shown, part)
				}
			}
		}
		u, err := Parse(text)
		if err != nil || !u.isSound() || !isScheme(u.Scheme) {
			return
		}
		bare, err := Parse(WithoutPasswords(text))
		if err != nil {
			t.Fatalf("%q without passwords is %q: %v", text, WithoutPasswords(text), err)
		}
		if escaped && u.Password != password {
			t.Errorf("of %q the password is %q", text, u.Password)
		}
		u.Password = ""
		if bare.User != u.User || !reflect.DeepEqual(bare.Hosts, u.Hosts) || bare.Path != u.Path || bare.Password != "" {
			t.Errorf("%q without passwords is of %+v", text, bare)
		}
	})
}
