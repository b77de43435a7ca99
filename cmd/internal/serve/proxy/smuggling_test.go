package proxy

import (
	"strings"
	"testing"
)

// A request that two parsers may read differently becomes one request to the upstream for each that was counted, or
// is refused.
func TestEachRequestThatTheUpstreamSeesWasCounted(t *testing.T) {
	const smuggled = "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n"
	post := func(fields, body string) string { return "POST /p HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" + body }
	for _, c := range []struct {
		name, raw string
		statuses  string   // of the answers
		lines     []string // that the upstream should see
		body      string   // of the first
		broken    bool     // the proxy notices only after counting that the body is malformed
	}{
		{"plain", "GET /a?b=c;d HTTP/1.1\r\nHost: a\r\n\r\n", "200", []string{"GET /a?b=c;d HTTP/1.1"}, "", false},
		{"two in a row", "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n", "200 200",
			[]string{"GET /a HTTP/1.1", "GET /b HTTP/1.1"}, "", false},
		{"length and chunked", post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nG"),
			"200", []string{"POST /p HTTP/1.1"}, "", false},
		{"chunked and length, a request behind",
			post("Transfer-Encoding: chunked\r\nContent-Length: 38\r\n", "0\r\n\r\n"+smuggled), "200 200",
			[]string{"POST /p HTTP/1.1", "GET /admin HTTP/1.1"}, "", false},
		{"length hides a request", post("Content-Length: 32\r\n", smuggled),
			"200", []string{"POST /p HTTP/1.1"}, smuggled, false},
		{"odd chunked", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), "501", nil, "", false},
		{"chunked twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
			"501", nil, "", false},
		{"chunked, identity", post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"), "501", nil, "", false},
		{"gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), "501", nil, "", false},
		{"chunked with a tab", post("Transfer-Encoding:\tchunked\r\n", "1\r\nx\r\n0\r\n\r\n"),
			"200", []string{"POST /p HTTP/1.1"}, "x", false},
		{"chunked with a vertical tab", post("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n"), "400", nil, "", false},
		{"chunked in quotes", post("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n"), "501", nil, "", false},
		{"chunked with a space before the colon", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), "400", nil, "", false},
		{"chunked in HTTP/1.0", "POST /p HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			"200", []string{"POST /p HTTP/1.1"}, "", false},
		{"two lengths", post("Content-Length: 1\r\nContent-Length: 2\r\n", "xy"), "400", nil, "", false},
		{"the same length twice", post("Content-Length: 1\r\nContent-Length: 1\r\n", "x"),
			"200", []string{"POST /p HTTP/1.1"}, "x", false},
		{"a list of lengths", post("Content-Length: 1, 1\r\n", "x"), "400", nil, "", false},
		{"length with a sign", post("Content-Length: +1\r\n", "x"), "400", nil, "", false},
		{"negative length", post("Content-Length: -1\r\n", "x"), "400", nil, "", false},
		{"length in hexadecimal", post("Content-Length: 0x1\r\n", "x"), "400", nil, "", false},
		{"length with an underscore", post("Content_Length: 33\r\n", smuggled),
			"200 200", []string{"POST /p HTTP/1.1", "GET /admin HTTP/1.1"}, "", false},
		{"folded header", "GET /a HTTP/1.1\r\nHost: a\r\nX: one\r\n two\r\n\r\n", "200", []string{"GET /a HTTP/1.1"}, "", false},
		{"folded encoding", post("Transfer-Encoding:\r\n chunked\r\n", "1\r\nx\r\n0\r\n\r\n"),
			"200", []string{"POST /p HTTP/1.1"}, "x", false},
		{"fold before the first header", "GET /a HTTP/1.1\r\n Host: a\r\n\r\n", "400", nil, "", false},
		{"bare LF", "GET /a HTTP/1.1\nHost: a\n\n", "200", []string{"GET /a HTTP/1.1"}, "", false},
		{"bare LF hides a header", "GET /a HTTP/1.1\r\nHost: a\r\nX: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			"200", []string{"GET /a HTTP/1.1"}, "", false},
		{"bare CR in a header", "GET /a HTTP/1.1\r\nHost: a\r\nX: y\rZ: z\r\n\r\n", "400", nil, "", false},
		{"NUL in a header", "GET /a HTTP/1.1\r\nHost: a\r\nX: y\x00z\r\n\r\n", "400", nil, "", false},
		{"bare LF after a chunk's size", post("Transfer-Encoding: chunked\r\n", "1\nx\r\n0\r\n\r\n"), "400", nil, "", true},
		{"chunk extension", post("Transfer-Encoding: chunked\r\n", "1;a=\"b\"\r\nx\r\n0;c\r\n\r\n"),
			"200", []string{"POST /p HTTP/1.1"}, "x", false},
		{"trailer that is a length", post("Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n", "0\r\nContent-Length: 33\r\n\r\n"),
			"400", nil, "", false},
		{"chunk shorter than it says", post("Transfer-Encoding: chunked\r\n", "5\r\nx\r\n0\r\n\r\n"), "400", nil, "", true},
		{"absolute form of another host", "GET http://other/a HTTP/1.1\r\nHost: a\r\n\r\n",
			"200", []string{"GET /a HTTP/1.1"}, "", false},
		{"two hosts", "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400", nil, "", false},
		{"no host", "GET /a HTTP/1.1\r\n\r\n", "400", nil, "", false},
		{"HTTP/1.0 without a host", "GET /a HTTP/1.0\r\n\r\n", "200", []string{"GET /a HTTP/1.1"}, "", false},
		{"HTTP/0.9", "GET /a\r\n\r\n", "400", nil, "", false},
		{"a space in the path", "GET /a HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n", "400", nil, "", false},
		{"a method with a colon", "GE:T /a HTTP/1.1\r\nHost: a\r\n\r\n", "400", nil, "", false},
		{"CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "405", nil, "", false},
		{"dots", "GET /a/../admin HTTP/1.1\r\nHost: a\r\n\r\n", "400", nil, "", false},
		{"encoded dots", "GET /a/%2e%2E/admin HTTP/1.1\r\nHost: a\r\n\r\n", "400", nil, "", false},
		{"dots behind encoded slashes", "GET /a%2f..%2fadmin HTTP/1.1\r\nHost: a\r\n\r\n", "400", nil, "", false},
		{"dots and a semicolon", "GET /a/..;/admin HTTP/1.1\r\nHost: a\r\n\r\n", "400", nil, "", false},
		{"dots and backslashes", "GET /a\\..\\admin HTTP/1.1\r\nHost: a\r\n\r\n", "400", nil, "", false},
		{"encoded slash", "GET /a%2Fb%3fc HTTP/1.1\r\nHost: a\r\n\r\n", "200", []string{"GET /a%2Fb%3fc HTTP/1.1"}, "", false},
		{"two slashes", "GET //a/b HTTP/1.1\r\nHost: a\r\n\r\n", "200", []string{"GET //a/b HTTP/1.1"}, "", false},
		{"invalid UTF-8 in the path", "GET /\xff\xfe%ff HTTP/1.1\r\nHost: a\r\n\r\n",
			"200", []string{"GET /%FF%FE%FF HTTP/1.1"}, "", false},
		{"invalid UTF-8 in a header", "GET /a HTTP/1.1\r\nHost: a\r\nX: \xff\xfe\r\n\r\n",
			"200", []string{"GET /a HTTP/1.1"}, "", false},
		{"long header", "GET /a HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", "431", nil, "", false},
		{"HTTP/2 by upgrade",
			"GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
			"200", []string{"GET /a HTTP/1.1"}, "", false},
		{"HTTP/2 at once", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400", nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			upstream := startStrict(t)
			r := newRig(t, settingsOf(t, "1000/1h"), Options{Upstream: upstream.upstream(t, "")})
			var statuses []string
			for _, answer := range r.exchange(t, c.raw, len(strings.Fields(c.statuses))) {
				statuses = append(statuses, strings.Fields(answer.Status)[0])
			}
			if got := strings.Join(statuses, " "); got != c.statuses {
				t.Errorf("answers %q, want %q", got, c.statuses)
			}
			saw := upstream.requests(t)
			var lines []string
			for _, request := range saw {
				lines = append(lines, request.line)
				for _, name := range []string{"Upgrade", "Connection", "Http2-Settings"} {
					if request.header.Get(name) != "" {
						t.Errorf("the upstream saw %s: %s", name, request.header.Get(name))
					}
				}
			}
			if strings.Join(lines, "\n") != strings.Join(c.lines, "\n") {
				t.Errorf("the upstream saw %q, want %q", lines, c.lines)
			}
			if len(saw) > 0 && saw[0].body != c.body {
				t.Errorf("body %q, want %q", saw[0].body, c.body)
			}
			want := len(saw)
			if c.broken {
				want++
			}
			if counted := r.counted(t, "127.0.0.1"); counted != int64(want) {
				t.Errorf("%d were counted, and the upstream saw %d", counted, len(saw))
			}
		})
	}
}
