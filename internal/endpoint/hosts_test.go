package endpoint

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestHosts(t *testing.T) {
	for target, local := range map[string]bool{
		"http://localhost/": true, "http://LocalHost:8080/": true, "http://localhost./": true,
		"http://127.0.0.1/":    true,
		"http://127.8.9.10:1/": true, "http://[::1]/": true, "http://[::1%25lo]/": true,
		"http://[::ffff:127.0.0.1]/":  true,
		"http://user:pass@127.0.0.1/": true,

		"http://example.com/": false, "http://10.0.0.1/": false, "http://0.0.0.0/": false, "http://[::]/": false,
		"http://127.0.0.1@example.com/": false, "http://2130706433/": false, "http://0x7f000001/": false,
		"http://127.1/":          false,
		"http://[fe80::1%25lo]/": false, "http://[::ffff:10.0.0.1]/": false, "http://xn--lcalhost-54a/": false,
		"http://example.com#@127.0.0.1/": false, "http://example.com?@127.0.0.1/": false,
	} {
		client, err := New(Options{URL: target})
		if err == nil {
			client.Close()
		}
		if local != (err == nil) {
			t.Errorf("%s: error %v", target, err)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "--i-may-test-this-host") {
			t.Errorf("%s: error %v", target, err)
		}
		// The flag in the error message permits the host.
		_, host, _ := strings.Cut(err.Error(), "--i-may-test-this-host ")
		client, err = New(Options{URL: target, Permitted: []string{host}})
		if err != nil {
			t.Errorf("%s permitted as %q: %v", target, host, err)
			continue
		}
		client.Close()
	}
}

// A backslash, or a letter that looks like another, does not lead to another host than it seems.
func TestHostsThatAreNone(t *testing.T) {
	for _, target := range []string{
		`http://127.0.0.1\@example.com/`, "http://l\u043ecalhost/", "http://127.0.0.1\uff0eexample.com/",
		"http://local\thost/",
		"http://lo calhost/",
		"http://[::1/", "http://$(reboot)/", "http://a;b/", "http://a'b/", "http://[::1%25a$(b)]/",
		"http://[127.0.0.1]:99999/", "http://",
		"http://:80/",
	} {
		if client, err := New(Options{URL: target}); err == nil {
			client.Close()
			t.Errorf("%q is taken", target)
		} else if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: %v", target, err)
		}
	}
}

// A permission for a host, or for a part of one, is for no other host.
func TestAPermissionIsForOneHost(t *testing.T) {
	u := &url.URL{Scheme: "http", Host: "api.example.com:8080"}
	for permitted, want := range map[string]bool{"API.Example.com.": true, "example.com": false,
		"xapi.example.com": false, "*": false} {
		if err := checkHost(u, []string{permitted}); want != (err == nil) {
			t.Errorf("%q: %v", permitted, err)
		}
	}
}

// If localhost resolves to another machine, nothing is sent.
func TestLocalhostThatLeadsElsewhere(t *testing.T) {
	d := dialer("localhost")
	for address, want := range map[string]bool{"127.0.0.1:80": true, "[::1]:80": true, "10.0.0.1:80": false,
		"[::]:80":    false,
		"0.0.0.0:80": false} {
		if err := d.ControlContext(t.Context(), "tcp", address, nil); want != (err == nil) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if dialer("example.com").ControlContext != nil {
		t.Error("a host that may be tested leads where it leads")
	}
}

func TestShownURLs(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1/a?b=c&d":                       "http://127.0.0.1/a?b=xxxxx&d",
		"http://me:secret@127.0.0.1/":                    "http://me:xxxxx@127.0.0.1/",
		"http://me@127.0.0.1/":                           "http://me@127.0.0.1/",
		"http://127.0.0.1/?api_key=abc&x=1":              "http://127.0.0.1/?api_key=xxxxx&x=xxxxx",
		"http://127.0.0.1/?api_key={subject}":            "http://127.0.0.1/?api_key={subject}",
		"http://me:sec@ret@127.0.0.1/@x":                 "http://me:xxxxx@127.0.0.1/@x",
		"http://127.0.0.1/{subject}?n={cost}&session=q1": "http://127.0.0.1/{subject}?n={cost}&session=xxxxx",
	} {
		if got := RedactURL(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}
