package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// seen is a request as the server sees it.
type seen struct {
	Method, Path, Query, Header, Host, UserAgent, ContentType, Authorization, Body, Proto string
	Headers                                                                               int
}

// echo is a server that keeps the last request.
type echo struct {
	*httptest.Server
	mu   sync.Mutex
	last seen
}

func newEcho(t *testing.T, start func(*httptest.Server)) *echo {
	t.Helper()
	e := &echo{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.last = seen{
			Method: r.Method, Path: r.URL.Path, Query: r.URL.Query().Get("key"), Header: r.Header.Get("X-Key"),
			Host:      r.Host,
			UserAgent: r.UserAgent(), ContentType: r.Header.Get("Content-Type"), Authorization: r.Header.Get(
				"Authorization"),
			Body: string(body), Proto: r.Proto, Headers: len(r.Header),
		}
	}))
	e.Listener = lingering{e.Listener}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	e.Config.Protocols = protocols
	e.Config.ErrorLog = log.New(io.Discard, "", 0)
	e.EnableHTTP2 = true
	start(e.Server)
	t.Cleanup(e.Close)
	return e
}

// ask sends one request and returns what the server saw.
func (e *echo) ask(t *testing.T, options Options, subject string, cost int64) seen {
	t.Helper()
	client := newClient(t, options)
	var answer Answer
	if err := client.Send(t.Context(), subject, cost, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Status != 200 || answer.Outcome != Allowed || answer.Sent.IsZero() ||
		answer.Answered.Before(answer.Sent) {
		t.Errorf("answer %+v", answer)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// The server gets any subject unchanged.
func TestSubjectsArriveAsTheyAre(t *testing.T) {
	e := newEcho(t, (*httptest.Server).Start)
	subjects := append(hostiletext.Subjects(), "plain", "a b", "a/b", "../../etc", "..", ".", "a?b#c", "a&key=c",
		"100%", "%2F", "ü\u2028",
		"a+b", "a\"b\\c", "x\r\nX-Evil: 1\r\n\r\nGET / HTTP/1.1\r\n", "\x00", " a ", "{cost}")
	for _, http2 := range []bool{false, true} {
		for _, subject := range subjects {
			plain := Options{URL: e.URL + "/users/{subject}/x?key={subject}&n={cost}",
				Body:  `{"user":"{subject}","cost":{cost}}`,
				HTTP2: http2}
			got := e.ask(t, plain, subject, 7)
			// JSON cannot contain bytes that are not UTF-8.
			inJSON := strings.ToValidUTF8(subject, "\ufffd")
			var body struct {
				User string
				Cost int64
			}
			if err := json.Unmarshal([]byte(got.Body), &body); err != nil || body.Cost != 7 {
				t.Errorf("%q: body %q: %v", subject, got.Body, err)
			}
			if sameRunes(body.User) != sameRunes(inJSON) || got.Query != subject || got.Path != "/users/"+subject+"/x" {
				t.Errorf("%q arrived as %q in the path, %q in the query and %q in the body", subject, got.Path,
					got.Query, body.User)
			}
			before := e.ask(t, Options{URL: e.URL, Headers: []string{"X-Key: a{subject}"}, HTTP2: http2}, "b", 1)
			got = e.ask(t, Options{URL: e.URL, Headers: []string{"X-Key: a{subject}"}, HTTP2: http2}, subject, 1)
			if got.Headers != before.Headers || !strings.HasPrefix(got.Header, "a") {
				t.Errorf("%q in a header made %d of %d headers, and %q", subject, got.Headers, before.Headers,
					got.Header)
			}
			if !strings.ContainsFunc(subject, func(r rune) bool { return r < ' ' || r == 0x7f || r == ' ' }) &&
				got.Header != "a"+subject {
				t.Errorf("%q arrived as %q in a header", subject, got.Header)
			}
		}
	}
}

// sameRunes merges replacement characters: their number for bytes that are not UTF-8 depends on the reader.
func sameRunes(text string) string {
	for strings.Contains(text, "\ufffd\ufffd") {
		text = strings.ReplaceAll(text, "\ufffd\ufffd", "\ufffd")
	}
	return text
}

func TestRequests(t *testing.T) {
	e := newEcho(t, (*httptest.Server).Start)
	withLogin := strings.Replace(e.URL, "http://", "http://me:p%40ss@", 1)
	for _, http2 := range []bool{false, true} {
		for _, test := range []struct {
			options Options
			want    func(seen) bool
		}{
			{Options{URL: e.URL}, func(s seen) bool { return s.Method == "GET" && s.Path == "/" && s.Body == "" }},
			{Options{URL: e.URL + "/a%2Fb?x=1#frag", Method: "DELETE"},
				func(s seen) bool { return s.Method == "DELETE" && s.Path == "/a/b" }},
			{Options{URL: e.URL, UserAgent: "limitctl/1", Headers: []string{"user-agent: other"}},
				func(s seen) bool { return s.UserAgent == "other" }},
			{Options{URL: e.URL, Headers: []string{"Host: api.example"}}, func(s seen) bool {
				return s.Host == "api.example"
			}},
			{Options{URL: withLogin}, func(s seen) bool { return s.Authorization == "Basic bWU6cEBzcw==" }},
			{Options{URL: e.URL, Body: "plain {subject}"}, func(s seen) bool {
				return s.Method == "POST" && s.Body == "plain a\"b c" && strings.HasPrefix(s.ContentType, "text/plain")
			}},
			{Options{URL: e.URL, Body: ` ["{subject}"]`}, func(s seen) bool {
				return s.Body == ` ["a\"b c"]` && s.ContentType == "application/json"
			}},
			{Options{URL: e.URL, Body: "k={subject}&x=1", Headers: []string{
				"Content-Type: application/x-www-form-urlencoded"}},
				func(s seen) bool { return s.Body == "k=a%22b%20c&x=1" }},
			{Options{URL: e.URL, Body: `{"a":"{subject}"}`, Headers: []string{
				"content-type: application/vnd.x+json; charset=utf-8"},
				Method: "PUT"},
				func(s seen) bool { return s.Body == `{"a":"a\"b c"}` && s.Method == "PUT" }},
		} {
			test.options.HTTP2 = http2
			got := e.ask(t, test.options, `a"b c`, 1)
			if !test.want(got) {
				got.Body = got.Body[:min(len(got.Body), 100)]
				t.Errorf("%+v was seen as %+v", test.options.URL, got)
			}
			if want := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[http2]; got.Proto != want {
				t.Errorf("spoke %s, want %s", got.Proto, want)
			}
		}
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	const url = "http://127.0.0.1:1/"
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{URL: "http://127.0.0.1:99999/"}, "the port 99999 of the URL is out of range"},
		{Options{URL: "http://{subject}.localhost/"}, "the URL of the endpoint cannot be read"},
		{Options{URL: "http://localhost/{id}"}, "has braces that are not a place"},
		{Options{URL: url, Method: "GET /x HTTP/1.1\r\nX:"}, "the method"},
		{Options{URL: url, Headers: []string{"Authorization Bearer secret"}}, "a --header is not 'Name: value'"},
		{Options{URL: url, Headers: []string{"A: b\r\nC: d"}}, "--header A has a line end"},
		{Options{URL: url, Headers: []string{"content-length: 5"}},
			"--header Content-Length is about how requests are sent"},
		{Options{URL: url, Body: `{"a":{subject}}`}, "the --body is not JSON"},
		{Options{URL: url, HTTP2: true, NoKeepAlive: true}, "leave out --http2 or --no-keepalive"},
	} {
		client, err := New(test.options)
		if err == nil {
			client.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || !errors.Is(err, store.ErrInvalid) ||
			strings.Contains(err.Error(), "Bearer secret") {
			t.Errorf("%+v: error %v, want %q", test.options, err, test.want)
		}
	}
}

func TestOutcomes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/302":
			http.Redirect(w, r, "/200", http.StatusFound)
		case "/404", "/429", "/503", "/403", "/599":
			status := 0
			for _, c := range r.URL.Path[1:] {
				status = 10*status + int(c-'0')
			}
			w.WriteHeader(status)
		}
	}))
	defer server.Close()
	for _, test := range []struct {
		denied []int
		path   string
		want   Outcome
	}{
		{nil, "/200", Allowed}, {nil, "/302", Allowed}, {nil, "/404", Allowed}, {nil, "/429", Denied},
		{nil, "/503", Failed}, {nil, "/599",
			Failed},
		{[]int{503}, "/503", Denied}, {[]int{503}, "/429", Allowed}, {[]int{403, 429}, "/403", Denied},
		{[]int{403, 429}, "/429", Denied},
		{[]int{200}, "/200", Denied},
	} {
		var answer Answer
		err := newClient(t, Options{URL: server.URL + test.path, DeniedStatuses: test.denied}).Send(
			t.Context(), "", 1, &answer)
		if err != nil || answer.Outcome != test.want {
			t.Errorf("%s with %v: outcome %d, error %v", test.path, test.denied, answer.Outcome, err)
		}
	}
	if err := NotAnswered(&Answer{Status: 503}); err.Error() != "503 Service Unavailable" ||
		!errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("error %v", err)
	}
}

func TestConnections(t *testing.T) {
	plain, secure := newEcho(t, (*httptest.Server).Start), newEcho(t, (*httptest.Server).StartTLS)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	for _, test := range []struct {
		name    string
		options Options
		opened  int64
		most    int64
	}{
		{"HTTP/1.1", Options{URL: plain.URL}, 1, 1},
		{"no keep-alive", Options{URL: plain.URL, NoKeepAlive: true}, 5, 5},
		// A Transport without TLS gives a connection to its first request before others can find it.
		{"h2c", Options{URL: plain.URL, HTTP2: true}, 1, 2},
		{"TLS", Options{URL: secure.URL, TLS: &tls.Config{RootCAs: roots}}, 1, 1},
		{"TLS, no keep-alive", Options{URL: secure.URL, TLS: &tls.Config{InsecureSkipVerify: true}, NoKeepAlive: true},
			5, 5},
		{"HTTP/2", Options{URL: secure.URL, TLS: &tls.Config{RootCAs: roots}, HTTP2: true}, 1, 1},
	} {
		client := newClient(t, test.options)
		for range 5 {
			if err := client.Send(t.Context(), "", 1, new(Answer)); err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
		}
		o := client.Openings()
		isTLS := strings.HasPrefix(test.options.URL, "https")
		if o.Count < test.opened || o.Count > test.most || o.Connect.TotalCount() != o.Count ||
			isTLS != (o.TLS.TotalCount() == o.Count) {
			t.Errorf("%s: %d connections, %d with TLS", test.name, o.Count, o.TLS.TotalCount())
		}
	}
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{URL: secure.URL}, "x509: certificate signed by unknown authority"},
		{Options{URL: strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), TLS: &tls.Config{RootCAs: roots}},
			"x509: certificate is valid for example.com, *.example.com, not localhost"},
	} {
		for _, http2 := range []bool{false, true} {
			test.options.HTTP2 = http2
			want := "the server's certificate is not trusted: " + test.want + "; give --cacert or --insecure"
			if err := newClient(t, test.options).Send(t.Context(), "", 1, new(Answer)); err == nil ||
				err.Error() != want {
				t.Errorf("error %v, want %q", err, want)
			}
		}
	}
}

// A server that wants a certificate says so in an alert.
func TestAServerThatEndsTheTLSConnection(t *testing.T) {
	e := newEcho(t, func(s *httptest.Server) {
		s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
		s.StartTLS()
	})
	const want = "the server ended the TLS connection: tls: certificate required"
	err := newClient(t, Options{URL: e.URL, TLS: &tls.Config{InsecureSkipVerify: true}}).Send(
		t.Context(), "", 1, new(Answer))
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// lingering is a listener whose connections read on after they are closed, so that no reset takes the last alert away
// from a client.
type lingering struct{ net.Listener }

func (l lingering) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return lingeringConn{conn.(*net.TCPConn)}, nil
}

type lingeringConn struct{ *net.TCPConn }

func (c lingeringConn) Close() error {
	go func() {
		defer c.TCPConn.Close()
		_, _ = io.Copy(io.Discard, c.TCPConn)
	}()
	return c.CloseWrite()
}

// Proxies in the environment are ignored.
func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	met := make(chan struct{}, 100)
	proxy := "http://" + listen(t, func(net.Conn) { met <- struct{}{} })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy)
	}
	e := newEcho(t, (*httptest.Server).Start)
	local, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, http2 := range []bool{false, true} {
		e.ask(t, Options{URL: "http://" + local.Host, HTTP2: http2}, "", 1)
	}
	if len(met) > 0 {
		t.Error("a proxy was asked")
	}
}

// A request is not lost if the server has closed the connection meanwhile.
func TestAConnectionThatWasClosedMeanwhile(t *testing.T) {
	closed := make(chan struct{}, 10)
	client := newClient(t, Options{URL: "http://" + listen(t, func(conn net.Conn) {
		request(conn)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		conn.Close() // without an announcement
		closed <- struct{}{}
	})})
	for range 5 {
		if err := client.Send(t.Context(), "", 1, new(Answer)); err != nil {
			t.Fatal(err)
		}
		<-closed
	}
}
