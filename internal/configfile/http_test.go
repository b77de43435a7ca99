package configfile

import (
	"net/netip"
	"os"
	"reflect"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
)

func readGood(t *testing.T, name string) File {
	t.Helper()
	data := must(os.ReadFile("testdata/good/" + name + ".yaml"))
	file, r := Read(name, data, Operators{})
	if mistakes := r.Mistakes(); len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	return file
}

func source(t *testing.T, text string) httplimit.Source {
	t.Helper()
	return must(httplimit.ParseSource(text))
}

// The settings for HTTP in a file.
func TestHTTPIsRead(t *testing.T) {
	got := readGood(t, "http").HTTP
	want := httplimit.Settings{
		Clients: httplimit.Clients{Header: "Forwarded", IPv6Bits: 56, Trusted: []netip.Prefix{
			netip.MustParsePrefix("127.0.0.0/8"),
			netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128"),
			netip.MustParsePrefix("192.0.2.7/32")}},
		Headers: httplimit.RateLimit | httplimit.RetryAfter,
		Rules: map[string]httplimit.Rule{
			"login": {
				Attributes: map[string]httplimit.Source{"ip": source(t, "client"), "user": source(t, "header:X-User"),
					"route": source(t, "path")},
				Skip: httplimit.Skip{
					Methods: []string{"OPTIONS", "M-SEARCH"}, Paths: []string{"/healthz", "/static/*"}},
				DeniedStatus: 403,
			},
			"silent": {Skip: httplimit.Skip{Paths: []string{"/"}}},
			"tenants": {Attributes: map[string]httplimit.Source{
				"tenant": source(t, "query:tenant"), "plan": source(t, "value:big")}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it is\n%+v\nnot\n%+v", got, want)
	}
}

// Without settings for HTTP in a file the defaults apply.
func TestHTTPUnlessSaid(t *testing.T) {
	readGood(t, "windows")
	got := readGood(t, "readme").HTTP
	if got.Headers != httplimit.AllHeaders || got.Clients.IPv6Bits != 64 || len(got.Clients.Trusted) > 0 ||
		len(got.Rules) > 0 {
		t.Errorf("it is %+v", got)
	}
}

func TestEnvoyIsRead(t *testing.T) {
	got := readGood(t, "http").Envoy
	want := EnvoyDomains{
		"edge": {
			{Policy: "tenants",
				Entries: []EnvoyEntry{{"generic_key", "big", true, ""}, {"tenant", "", false, "tenant"},
					{"plan", "big", true, "plan"}}},
			{Policy: "tenants",
				Entries: []EnvoyEntry{{"generic_key", "small", true, ""}, {"tenant", "", false, "tenant"},
					{"plan", "", false, "plan"}}},
			{Policy: "tenants", Entries: []EnvoyEntry{{"tenant", "", false, "tenant"}}},
		},
		"inner.example/a b": {
			{Policy: "login",
				Entries: []EnvoyEntry{{"remote_address", "", false, "ip"}, {"user", "", false, "user"},
					{"path", "", false, "route"}}},
			{Policy: "login", Ordered: true, Name: "paths", Replaces: []string{"all", "none"}, Entries: []EnvoyEntry{
				{"path", "/a*", true, "route"}, {"generic_key", "x", true, ""}, {"generic_key", "", false, "ip"},
				{"user", "", false, "user"}}},
			{Ordered: true, Unlimited: true, Entries: []EnvoyEntry{{"tenant", "acme", true, ""}}},
			{Deny: true, Entries: []EnvoyEntry{{"tenant", "", false, ""}}},
			{Ordered: true, Entries: []EnvoyEntry{{"tenant", "", false, ""}}},
		},
		"shadow": {{Deny: true, Entries: []EnvoyEntry{{"a", "", false, ""}}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it is\n%+v\nnot\n%+v", got, want)
	}
	options := EnvoyOptions{Headers: EnvoyHeaders{"X-Limit", "X-Left", "X-Reset"}}
	if got := readGood(t, "http").EnvoyOptions; got != options {
		t.Errorf("the options are %+v", got)
	}
	if got := readGood(t, "envoy-shadow").EnvoyOptions; got != (EnvoyOptions{Shadow: true}) {
		t.Errorf("the options are %+v", got)
	}
}

// must returns what a call returned that cannot fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
