package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
)

// The fields about the sender come from this proxy, or from one that it trusts.
func TestTheUpstreamIsToldWhoSentARequest(t *testing.T) {
	const lies = "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 1\r\n" +
		"X-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\n"
	for _, c := range []struct {
		name, raw string
		trusted   []string
		field     string // that trusted proxies write
		options   Options
		want      map[string]string // "" for a field that is not there
		client    string            // that is counted
	}{
		{"a client's own words are dropped", "GET / HTTP/1.1\r\nHost: site\r\n" + lies + "\r\n", nil, "", Options{},
			map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "site", "X-Forwarded-Proto": "http",
				"X-Forwarded-Port": "",
				"X-Real-Ip":        "", "Forwarded": "", "X_forwarded_for": "", "Host": "site"}, "127.0.0.1"},
		{"a trusted proxy's words go on", "GET / HTTP/1.1\r\nHost: site\r\n" + lies + "\r\n", []string{"127.0.0.0/8"}, "", Options{},
			map[string]string{"X-Forwarded-For": "6.6.6.6, 127.0.0.1", "X-Forwarded-Host": "evil", "X-Forwarded-Proto": "https",
				"X-Forwarded-Port": "1", "X-Real-Ip": "6.6.6.6", "Forwarded": "", "X_forwarded_for": ""}, "6.6.6.6"},
		{"Forwarded, where that is the field", "GET / HTTP/1.1\r\nHost: site\r\n" + lies + "\r\n", []string{"127.0.0.0/8"}, "Forwarded",
			Options{},
			map[string]string{"Forwarded": "for=6.6.6.6, for=127.0.0.1", "X-Forwarded-For": "127.0.0.1"}, "6.6.6.6"},
		{"a field of its own", "GET / HTTP/1.1\r\nHost: site\r\nConnection: X-Client\r\nX-Client: 5.5.5.5\r\n\r\n",
			[]string{"127.0.0.0/8"}, "X-Client", Options{}, map[string]string{"X-Client": "5.5.5.5", "X-Forwarded-For": "127.0.0.1"},
			"5.5.5.5"},
		{"a field of its own from others", "GET / HTTP/1.1\r\nHost: site\r\nX-Client: 5.5.5.5\r\n\r\n",
			nil, "X-Client", Options{}, map[string]string{"X-Client": ""}, "127.0.0.1"},
		{"several fields are one list", "GET / HTTP/1.1\r\nHost: site\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\n\r\n",
			[]string{"127.0.0.0/8"}, "", Options{}, map[string]string{"X-Forwarded-For": "1.1.1.1, 2.2.2.2, 127.0.0.1"}, "2.2.2.2"},
		{"they cannot be taken out by Connection",
			"GET / HTTP/1.1\r\nHost: site\r\nConnection: close, X-Forwarded-For, X-Forwarded-Proto\r\nX-Forwarded-For: 2.2.2.2\r\n\r\n",
			[]string{"127.0.0.0/8"}, "", Options{},
			map[string]string{"X-Forwarded-For": "2.2.2.2, 127.0.0.1", "X-Forwarded-Proto": "http"}, "2.2.2.2"},
		{"another Host", "GET / HTTP/1.1\r\nHost: site\r\n\r\n", nil, "", Options{Host: "app.internal"},
			map[string]string{"Host": "app.internal", "X-Forwarded-Host": "site"}, "127.0.0.1"},
		{"no Host", "GET / HTTP/1.0\r\n\r\n", nil, "", Options{}, map[string]string{"X-Forwarded-Host": ""}, "127.0.0.1"},
		{"fields of one hop stay there",
			"GET / HTTP/1.1\r\nHost: site\r\nConnection: X-Once\r\nX-Once: 1\r\nKeep-Alive: 1\r\n" +
				"Proxy-Authorization: x\r\nTE: trailers\r\nX-More: 2\r\n\r\n",
			nil, "", Options{}, map[string]string{"X-Once": "", "Keep-Alive": "", "Proxy-Authorization": "", "Connection": "",
				"Te":     "trailers",
				"X-More": "2", "User-Agent": ""}, "127.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			upstream := startStrict(t)
			settings := settingsOf(t, "1000/1h")
			settings.HTTP.Clients.Trusted, settings.HTTP.Clients.Header = prefixes(t, c.trusted...), c.field
			c.options.Upstream = upstream.upstream(t, "")
			r := newRig(t, settings, c.options)
			r.exchange(t, c.raw, 1)
			saw := upstream.requests(t)
			if len(saw) != 1 {
				t.Fatalf("the upstream saw %d requests", len(saw))
			}
			for name, want := range c.want {
				if got := strings.Join(saw[0].header[name], " | "); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if n := r.counted(t, c.client); n != 1 {
				t.Errorf("client %s was counted %d times", c.client, n)
			}
		})
	}
}

// A request is counted by the fields that the upstream sees.
func TestAFieldOfOneHopIsNotCountedBy(t *testing.T) {
	upstream := startStrict(t)
	settings := settingsOf(t, "1000/1h")
	settings.HTTP.Rules["door"] = httplimit.Rule{Attributes: map[string]httplimit.Source{"ip": source(t, "header:X-Api-Key")}}
	r := newRig(t, settings, Options{Upstream: upstream.upstream(t, "")})
	answers := r.exchange(t, "GET / HTTP/1.1\r\nHost: a\r\nConnection: x-api-key\r\nX-Api-Key: any\r\n\r\n", 1)
	if len(answers) != 1 || answers[0].StatusCode != http.StatusBadRequest || len(upstream.requests(t)) != 0 {
		t.Errorf("answers %v, and the upstream saw %v", answers, upstream.requests(t))
	}
}

func TestAPrefixOfTheUpstreamIsKept(t *testing.T) {
	for path, want := range map[string]string{
		"/": "/app/", "/a": "/app/a", "/a%2Fb": "/app/a%2Fb", "/a?": "/app/a?", "/a?x=%zz&y;z": "/app/a?x=%zz&y;z", "//a": "/app//a",
	} {
		upstream := startStrict(t)
		r := newRig(t, settingsOf(t, "1000/1h"), Options{Upstream: upstream.upstream(t, "/app")})
		r.exchange(t, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n", 1)
		if saw := upstream.requests(t); len(saw) != 1 || saw[0].line != "GET "+want+" HTTP/1.1" {
			t.Errorf("%s: the upstream saw %v", path, saw)
		}
	}
}
