package httplimit

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestParseSource(t *testing.T) {
	for text, want := range map[string]string{
		"client": "client", "method": "method", "host": "host", "path": "path", "path:2": "path:2", "path:02": "path:2",
		"header:x-user": "header:X-User", "header:Host": "header:Host",
		"query:a b": "query:a b", "cookie:sid": "cookie:sid", "value:a:b": "value:a:b",
	} {
		if s, err := ParseSource(text); err != nil || s.String() != want {
			t.Errorf("%q is %q, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "ip", "client:", "client:a", "header:", "header:a b", "header:ä", "cookie:a;b",
		"path:0", "path:33", "path:x", "path:-1",
		"header:X-Forwarded-For", "header:forwarded", "Client", " client"} {
		if s, err := ParseSource(text); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q is %q, %v", text, s, err)
		}
	}
	if got := (Source{}).String(); got != "" {
		t.Errorf("the zero source is %q", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a wrong source in a program is accepted")
		}
	}()
	MustSource("ip")
}

func TestSources(t *testing.T) {
	for _, test := range []struct{ source, target, fields, want string }{
		{"method", "GET /", "", "GET"},
		{"method", "get /", "", "OTHER"},

		{"host", "GET /", "Host: Example.COM", "example.com"},
		{"host", "GET /", "Host: [2001:DB8::1]:80", "2001:db8::1"},
		{"host", "GET http://other.example/a", "", "other.example"},
		{"header:Host", "GET /", "Host: Example.COM:1", "example.com"},

		{"path", "GET /", "", "/"},
		{"path", "GET /a/b/", "", "/a/b"},
		{"path", "GET /%61/%2e%2e/a%2fb", "", "/a/b"},
		{"path", "GET /A/b?c=/d", "", "/A/b"},
		{"path", "OPTIONS *", "", "/*"},
		// Some services read these as one path, so they must share a limit.
		{"path", "GET /login;a=1", "", "/login"},
		{"path", "GET /x/..;v=2/login;b=2;c", "", "/login"},
		{"path", "GET /a%3bx/b", "", "/a/b"},
		{"path", "GET /a%5cb", "", "/a/b"},
		{"path:1", "GET /;/users;1/42", "", "/users"},
		{"path:2", "GET //users/42/posts", "", "/users/42"},

		{"header:X-User", "GET /", "X-User: ada", "ada"},
		{"header:X-User", "GET /", "", ""},
		{"header:X-User", "GET /", "X-User: ada\nX-User: ada", "ada"},
		{"header:X-User", "GET /", "X-User: ada\nX-User: bob", ""},

		{"query:key", "GET /?other=b&key=a%20b+c&keys=d", "", "a b c"},
		{"query:key", "GET /?key=a&k%65y=a", "", "a"},
		{"query:key", "GET /?key=a&key=b", "", ""},
		{"query:key", "GET /?key=%zz", "", ""},
		{"query:key", "GET /?key=a;key=b", "", ""},
		{"query:key", "GET /?x=1;key=b&key=a", "", ""}, // a server that splits at semicolons reads b
		{"query:a b", "GET /?a+b=1", "", "1"},

		{"cookie:sid", "GET /", "Cookie: a=b; sid=x", "x"},
		{"cookie:sid", "GET /", "Cookie: sid=x; sid=y", ""},
		{"cookie:sid", "GET /", "Cookie: sid=x\nCookie: sid=x", "x"},
		// Services differ in which of these they read, and whether they decode escapes.
		{"cookie:sid", "GET /", "Cookie: sid=%78yz", "xyz"},
		{"cookie:sid", "GET /", "Cookie: %73id=y; sid=x", ""},
		{"cookie:sid", "GET /", "Cookie: sid=y\\; sid=x", ""},
		{"cookie:sid", "GET /", "Cookie: sid=x\nCookie: a=b;\tsid =y", ""},
		{"cookie:sid", "GET /", "Cookie: sid; sid=x", ""},
		{"header:Authorization", "GET /", "Authorization: bEARER \t T", "bearer T"},
	} {
		method, target, _ := strings.Cut(test.target, " ")
		r := httptest.NewRequest(method, target, nil)
		for line := range strings.Lines(test.fields) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			if name == "Host" {
				r.Host = value
			} else {
				r.Header.Add(name, value)
			}
		}
		rule := Rule{Attributes: map[string]Source{"a": MustSource(test.source)}}
		attributes := rule.Of(r, &Clients{})
		if got, has := attributes["a"]; got != test.want || has != (test.want != "") {
			t.Errorf("%s of %s %q is %q, not %q", test.source, test.target, test.fields, got, test.want)
		}
	}
}

// Different long values stay different, and their beginning stays readable.
func TestLongValues(t *testing.T) {
	rule := Rule{Attributes: map[string]Source{"a": MustSource("header:A")}}
	seen := map[string]string{}
	for _, value := range []string{
		strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("a", 130), strings.Repeat("a", 100000),
		strings.Repeat("a", 100000) + "b",
		strings.Repeat("ä", 64), strings.Repeat("ä", 65), strings.Repeat("\xff", 42), strings.Repeat("\xff", 43),
		strings.Repeat("%", 43),
		strings.Repeat("\u0085", 22), strings.Repeat("{", 44),
	} {
		r := &http.Request{Header: http.Header{"A": {value}}}
		got := rule.Of(r, &Clients{})["a"]
		if escaped := store.Subject(got); len(escaped) > maxValue || seen[got] != "" {
			t.Errorf("%.20q… is %q, of %d bytes; so is %q", value, got, len(escaped), seen[got])
		}
		if len(store.Subject(value)) <= maxValue && got != value {
			t.Errorf("%q is %q, though it is short", value, got)
		}
		if !strings.HasPrefix(value,
			strings.TrimRight(got, "~-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")) {
			t.Errorf("%.20q is %q", value, got)
		}
		seen[got] = value
	}
}

func TestSkip(t *testing.T) {
	rule := Rule{Skip: Skip{Methods: []string{"OPTIONS"}, Paths: []string{"/healthz", "/static/*", "/docs/"}}}
	for target, want := range map[string]bool{
		"GET /healthz": true, "OPTIONS /login": true, "GET /static/": true, "GET /static/css/a.css": true,
		"GET /docs/":          true,
		"GET /healthz?full=1": true, "GET /%68ealthz": true, "GET /static/a/": true, "GET /static/a..b": true,
		"options /login": false, "GET /": false, "GET /healthz/": false, "GET /healthz2": false, "GET /Healthz": false,
		"GET /static": false,
		"GET /docs":   false, "GET /docs/a": false,
		// A server behind may read these paths differently.
		"GET /static/../login": false, "GET /static/%2e%2e/login": false, "GET /static/..%2flogin": false,
		"GET /static//login": false,
		"GET //static/a":     false, "GET /static/..;/login": false, "GET /static/%252e%252e/login": false,
		`GET /static/..\login`: false,
		"GET /static/a/.":      false, "GET /static/..": false, "GET /healthz;x": false, "GET /static/%5c..": false,
		"OTHER *": false,
	} {
		method, uri, _ := strings.Cut(target, " ")
		if got := rule.Skips(httptest.NewRequest(method, uri, nil)); got != want {
			t.Errorf("%s is skipped: %v", target, got)
		}
	}
	for field, want := range map[string]bool{
		"X-HTTP-Method-Override": false, "X-Http-Method": false, "X-Method-Override": false, "X-Method": true,
	} {
		r := httptest.NewRequest("OPTIONS", "/login", nil)
		if r.Header.Set(field, "POST"); rule.Skips(r) != want {
			t.Errorf("OPTIONS with %s is skipped: %v", field, !want)
		}
	}
	if (&Rule{}).Skips(httptest.NewRequest("GET", "/", nil)) {
		t.Error("without rules something is skipped")
	}
}

// For any request, a policy makes valid requests or says what is missing, and counts the value that net/http reads.
func FuzzAttributes(f *testing.F) {
	f.Add("GET", "/a/b", "key=a&key=b", "example.com:80", "ada", "sid=1; sid=2")
	f.Add("\xff", "//..%2f", "k%65y=%", "[::1", "\x00\x7f", `sid="`)
	f.Add("X", strings.Repeat("/a", 3000), strings.Repeat("&", 3000), "a:b:c", strings.Repeat("\xc3", 300),
		strings.Repeat(";", 300))
	rule := Rule{Attributes: map[string]Source{}, Skip: Skip{Paths: []string{"/static/*"}}}
	var limits []policy.Limit
	for _, text := range []string{"client", "method", "host", "path", "path:2", "header:X-User", "query:key",
		"cookie:sid"} {
		name := strings.NewReplacer(":", "-").Replace(text)
		rule.Attributes[name] = MustSource(text)
		limits = append(limits, policy.Limit{Limit: limiter.Per(name, 10, time.Minute), By: []string{name}})
	}
	all := policy.Limit{Limit: limiter.Per("all", 10, time.Minute)}
	for _, l := range limits[:6] {
		all.By = append(all.By, l.By[0])
	}
	p := policy.Policy{Name: "p", Limits: append(limits, all)}
	f.Fuzz(func(t *testing.T, method, path, query, host, user, cookie string) {
		r := &http.Request{Method: method, Host: host, URL: &url.URL{Path: path, RawQuery: query},
			RemoteAddr: "192.0.2.1:1",
			Header:     http.Header{"X-User": {user}, "Cookie": {cookie}}}
		attributes := rule.Of(r, &Clients{})
		if again := rule.Of(r, &Clients{}); len(again) != len(attributes) {
			t.Fatalf("%q, and then %q", attributes, again)
		}
		if values := r.URL.Query()["key"]; len(values) == 1 && attributes["query-key"] != bounded(values[0]) &&
			!strings.ContainsAny(query, "%;") {
			t.Errorf("the key of %q is %q", query, attributes["query-key"])
		}
		if path := attributes["path"]; path != "" && !strings.HasPrefix(path, "/") {
			t.Errorf("the path of %q is %q", r.URL.Path, path)
		}
		if rule.Skips(r) && !strings.HasPrefix(plainPath(r)+"/", "/static/") {
			t.Errorf("%q is skipped, which is %q", path, plainPath(r))
		}
		for name := range rule.Attributes {
			if attributes[name] == "" {
				attributes[name] = "-"
			}
		}
		reqs, _, err := p.Prepare().AppendRequests(nil, nil, attributes, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range reqs {
			if err := reqs[i].Normalize(store.Take); err != nil {
				t.Errorf("%q: %v", reqs[i].Key, err)
			}
		}
	})
}

// No key contains a secret. The same value always has the same hash, and another value another one.
func TestASecretIsHashed(t *testing.T) {
	clients := &Clients{}
	valueOf := func(source, key string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Api-Key", key)
		rule := Rule{Attributes: map[string]Source{"key": MustSource(source)}}
		return rule.Of(r, clients)["key"]
	}
	// printf secret | sha256sum, the first 24 bytes in base64url
	const want = "K7gNU3sdo-OL0wNhqoVWhr3g6s1xYv72"
	for key, want := range map[string]string{
		"secret": want, "": "", "secret2": valueOf("hash:header:X-API-Key", "secret2")} {
		if got := valueOf("hash:header:X-API-Key", key); got != want || strings.Contains(got, "secret") {
			t.Errorf("%q is %q", key, got)
		}
	}
	if valueOf("hash:header:X-API-Key", "secret2") == want || valueOf("header:X-API-Key", "secret") != "secret" {
		t.Error("two keys are one, or a plain value is hashed")
	}
	if text := MustSource("hash:header:x-api-key").String(); text != "hash:header:X-Api-Key" {
		t.Errorf("it is written %s", text)
	}
	for _, wrong := range []string{"hash:", "hash:hash:client", "hash:nothing"} {
		if _, err := ParseSource(wrong); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
