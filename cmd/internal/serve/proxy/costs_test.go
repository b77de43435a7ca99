package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The bytes of a request are counted before it is passed on, and an unknown length does not avoid the limit.
func TestTheProxyCountsBytes(t *testing.T) {
	passed := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
	defer upstream.Close()
	settings := settingsOf(t, "10/366d")
	p := settings.Policies[0]
	traffic, err := store.ParseLimit("100/366d")
	if err != nil {
		t.Fatal(err)
	}
	p.Limits[0].Cost = policy.Cost{Units: 1}
	p.Limits = append(p.Limits, policy.Limit{Name: "traffic", By: []string{"ip"}, Limit: traffic, Cost: policy.Cost{Field: "bytes"}})
	to, err := ParseUpstream(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, settings, Options{Upstream: to})
	for _, test := range []struct {
		raw    string
		status int
		says   string
	}{
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n" + strings.Repeat("x", 101), 400, "cost 101 can never fit"},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n" + strings.Repeat("x", 99), 200, ""},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 400,
			"the request must have a Content-Length, as its bytes are counted"},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxx", 429, `"violated-policies":["traffic"]`},
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200, ""},
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 429, `"violated-policies":["traffic"]`},
	} {
		answers := r.exchange(t, test.raw, 1)
		if len(answers) != 1 {
			t.Fatalf("%.60q: %d answers", test.raw, len(answers))
		}
		body, err := io.ReadAll(answers[0].Body)
		if err != nil || answers[0].StatusCode != test.status || !strings.Contains(string(body), test.says) {
			t.Errorf("%.60q: %s %s, %v", test.raw, answers[0].Status, body, err)
		}
	}
	if passed != 2 {
		t.Errorf("%d requests were passed on, want 2", passed)
	}
}
