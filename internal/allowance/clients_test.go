package allowance

import (
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Only values of the attribute are named, where a subject has an attribute's value.
func TestNamingClients(t *testing.T) {
	client := func(attribute, value string) string {
		if is, ok := (&httplimit.Clients{}).Client(value); ok && attribute == "ip" {
			return is
		}
		return value
	}
	const escaped = "2001%3Adb8%3A77%3A1%3A%3A/64"
	for pattern, want := range map[string]string{
		"ip:2001:db8:77:1::1": "ip:" + escaped, "ip:[2001:db8:77:1::1]": "ip:" + escaped,
		"ip:2001:db8:77:1::1%eth0": "ip:" + escaped,
		"ip:::ffff:203.0.113.9":    "ip:203.0.113.9", "ip:203.0.113.9:443": "ip:203.0.113.9",
		"tenant:acme:ip:2001:db8:77:1::1":      "tenant:acme:ip:" + escaped,
		"tenant:acme:ip:[::ffff:1.2.3.4]":      "tenant:acme:ip:1.2.3.4",
		"ip:2001%3Adb8%3A77%3A1%3A%3A1:user:7": "ip:" + escaped + ":user:7",
		"*:ip:2001:db8:77:1::1":                "*:ip:" + escaped, `tenant:\*:ip:2001:db8:77:1::1`: `tenant:\*:ip:` +
			escaped,
		"tenant:*:ip:::ffff:1.2.3.4": "tenant:*:ip:1.2.3.4",
		"ip:2001:db8:77:1::1/128":    "ip:" + escaped,
		// All that a client does.
		"ip:2001:db8:77:1::1:*": "ip:" + escaped + ":*", "ip:[2001:db8:77:1::1]:443:*": "ip:" + escaped + ":*",
		"*:ip:::ffff:1.2.3.4:*":      "*:ip:1.2.3.4:*",
		"user:ip:2001:db8:77:1::1:*": "", "ip:2001:db8::*": "", "ip:1.2.3.4:*": "", `ip:1.2.3.4:\*`: "",
		"ip:2001:db8::/48:*": "", "a:b*:*": "", ":*": "",
		// Not the attribute's, or nobody's, and what is written as keys are.
		"user:2001:db8:77:1::1": "", "user:ip:2001:db8:77:1::1": "",
		"user:ip:::ffff:1.2.3.4": "", "*ip:2001:db8:77:1::1": "", "zip:::1": "",
		"2001:db8:77:1::1": "", "::ffff:1.2.3.4": "", "ip:a:b:c:d:e:f:1.2.3.4": "", "ip:203.0.113.9": "",
		"ip:" + escaped: "", "ip:*": "",
		"ip:2001:db8:77:1:*": "", "ip:[ab]": "", "": "", ":": "", "ip:": "",
		// Networks.
		"ip:2001:db8:77:1::/64": "", "ip:2001:db8:77:1::1/64": "ip:" + escaped, "ip:2001:db8::/32": "",
		"ip:2001:db8:77::/63":   "",
		"ip:2001:db8:77:1::/65": "ip:" + escaped, "*:ip:2001:db8:77:1::/80": "*:ip:" + escaped,
		"ip:203.0.113.9/32": "ip:203.0.113.9", "ip:203.0.113.8/31": "",
		"ip:::ffff:1.2.3.0/120": "", "ip:2001:db8::/129": "", "ip:2001:db8::/+80": "",
	} {
		if want == "" {
			want = pattern
		}
		if got := NamingClients(pattern, client); got != want {
			t.Errorf("%q becomes %q, want %q", pattern, got, want)
		}
	}
}

func TestSamePattern(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"ip:2001:db8::/64", "ip:2001%3Adb8%3A%3A/64", true},
		{"tenant:a:ip:2001:db8::/64", "tenant:a:ip:2001%3Adb8%3A%3A/64", true},
		{"ip:2001:db8::/63", "ip:2001%3Adb8%3A%3A/64", false}, {"user:2001:db8::/64", "ip:2001%3Adb8%3A%3A/64", false},
		{"*:ip:2001:db8::/64", "tenant:ip:2001%3Adb8%3A%3A/64", false}, {"ip:203.0.113.9/32", "ip:203.0.113.9", true},
		{"ip:203.0.113.8/31", "ip:203.0.113.8", false}, {"user:203.0.113.9/32", "ip:203.0.113.9", false},
		{"ip:2001:db8::/32", "ip:2001%3Adb8%3A%3A", false},
		{"a:*", "a:*", true}, {"a:*", `a:\*`, false}, {"a:b", "a:b", true}, {"a:b", "a%3Ab", false},
		{"a:b", "a:c", false},
	} {
		a, err := store.ParsePattern(test.a)
		b, err2 := store.ParsePattern(test.b)
		if err != nil || err2 != nil || SamePattern(a, b) != test.same || SamePattern(b, a) != test.same {
			t.Errorf("%s and %s: %v, want %v; %v %v", test.a, test.b, SamePattern(a, b), test.same, err, err2)
		}
	}
}
