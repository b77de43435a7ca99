package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// front starts a proxy in front of handler.
func front(t *testing.T, limit string, options Options, handler http.HandlerFunc) *rig {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return frontOf(t, limit, options, server.URL)
}

func frontOf(t *testing.T, limit string, options Options, upstream string) *rig {
	t.Helper()
	var err error
	if options.Upstream, err = ParseUpstream(upstream); err != nil {
		t.Fatal(err)
	}
	return newRig(t, settingsOf(t, limit), options)
}

// get returns the response and its body.
func (r *rig) get(t *testing.T, path string) (*http.Response, string) {
	t.Helper()
	answer, err := http.Get(r.server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	return answer, readAll(t, answer)
}

func readAll(t *testing.T, answer *http.Response) string {
	t.Helper()
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestADeniedRequestNeverReachesTheUpstream(t *testing.T) {
	reached := 0
	r := front(t, "fixed-window:2/1h", Options{}, func(w http.ResponseWriter, _ *http.Request) {
		reached++
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Remaining", "X-Own"} {
			w.Header().Set(name, "of the upstream")
		}
		w.WriteHeader(http.StatusTeapot)
	})
	for i := range 2 {
		answer, _ := r.get(t, "/")
		if answer.StatusCode != http.StatusTeapot || answer.Header.Get("X-Own") != "of the upstream" {
			t.Errorf("answer %d: %s, %v", i, answer.Status, answer.Header)
		}
		want := fmt.Sprintf(`"client";r=%d;t=`, 1-i)
		if fields := answer.Header.Values("RateLimit"); len(fields) != 1 || !strings.HasPrefix(fields[0], want) {
			t.Errorf("RateLimit %q, want %s…", fields, want)
		}
		if fields := answer.Header.Values("X-RateLimit-Remaining"); len(fields) != 1 || fields[0] != fmt.Sprint(1-i) {
			t.Errorf("X-RateLimit-Remaining %q", fields)
		}
	}
	answer, body := r.get(t, "/")
	if answer.StatusCode != http.StatusTooManyRequests || reached != 2 {
		t.Errorf("%s, and the upstream was reached %d times", answer.Status, reached)
	}
	if answer.Header.Get("Retry-After") == "" || answer.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("headers %v", answer.Header)
	}
	var problem struct{ Status int }
	if err := json.Unmarshal([]byte(body), &problem); err != nil || problem.Status != http.StatusTooManyRequests {
		t.Errorf("body %s, %v", body, err)
	}
}

// A limit that is nearly used up is named to the client, beside what the upstream says.
func TestAWarningIsPassedOn(t *testing.T) {
	settings := settingsOf(t, "fixed-window:2/1h")
	settings.Policies[0].Limits[0].Warn = store.WholeShare
	upstream := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	parsed, err := ParseUpstream(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, settings, Options{Upstream: parsed})
	for _, want := range []string{"", `"client";used=100`, `"client";used=100`} {
		if answer, _ := r.get(t, "/"); answer.Header.Get("X-RateLimit-Warning") != want {
			t.Errorf("%s: %v", answer.Status, answer.Header)
		}
	}
}

// If the configuration selects no fields, those of the upstream stay.
func TestTheUpstreamsOwnLimitsAreToldIfOursAreNot(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("RateLimit", "mine") }))
	t.Cleanup(server.Close)
	upstream, err := ParseUpstream(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	settings := settingsOf(t, "10/1h")
	settings.HTTP.Headers = 0
	r := newRig(t, settings, Options{Upstream: upstream})
	if answer, _ := r.get(t, "/"); answer.Header.Get("RateLimit") != "mine" {
		t.Errorf("headers %v", answer.Header)
	}
}

func TestTheStatusOfADenialIsThePolicys(t *testing.T) {
	upstream := startStrict(t)
	settings := settingsOf(t, "fixed-window:1/1h")
	rule := settings.HTTP.Rules["door"]
	rule.DeniedStatus = http.StatusForbidden
	settings.HTTP.Rules = map[string]httplimit.Rule{"door": rule}
	r := newRig(t, settings, Options{Upstream: upstream.upstream(t, "")})
	r.get(t, "/")
	if answer, _ := r.get(t, "/"); answer.StatusCode != http.StatusForbidden || answer.Header.Get("Retry-After") == "" {
		t.Errorf("%s, %v", answer.Status, answer.Header)
	}
}

func TestWhatAnUpstreamDoesWrongIsTold(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	for _, c := range []struct {
		name   string
		answer string // "" for none
		status int
	}{
		{"silent", "", http.StatusGatewayTimeout},
		{"half a header", "HTTP/1.1 200 OK\r\nX: ", http.StatusGatewayTimeout},
		{"closes", "close", http.StatusBadGateway},
		{"not HTTP", "SSH-2.0-OpenSSH\r\n", http.StatusBadGateway},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", http.StatusBadGateway},
		{"a huge header", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeaderBytes+1<<10) + "\r\n\r\n", http.StatusBadGateway},
		{"switches where nobody asked",
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", http.StatusBadGateway},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { listener.Close() })
			ended := make(chan struct{})
			t.Cleanup(func() { close(ended) })
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					bufio.NewReader(conn).ReadString('\n')
					if c.answer != "close" {
						io.WriteString(conn, c.answer)
					}
					if c.status == http.StatusGatewayTimeout {
						<-ended
					}
					conn.Close()
				}
			}()
			options := Options{} // patient: a large answer takes time on a busy machine
			if c.status == http.StatusGatewayTimeout {
				options.Timeout = 100 * time.Millisecond
			}
			r := frontOf(t, "10/1h", options, "http://"+listener.Addr().String())
			answer, err := http.Post(r.server.URL, "text/plain", strings.NewReader("x")) // not sent twice
			if err != nil {
				t.Fatal(err)
			}
			body := readAll(t, answer)
			if answer.StatusCode != c.status || answer.Header.Get("RateLimit") == "" || strings.Contains(body, "127.0.0.1") {
				t.Errorf("%s, %v\n%s", answer.Status, answer.Header, body)
			}
			if n := r.counted(t, "127.0.0.1"); n != 1 {
				t.Errorf("counted %d", n)
			}
		})
	}
	t.Run("away", func(t *testing.T) {
		r := frontOf(t, "10/1h", Options{}, "http://"+nobody.Addr().String())
		if answer, _ := r.get(t, "/"); answer.StatusCode != http.StatusBadGateway || r.counted(t, "127.0.0.1") != 1 {
			t.Errorf("%s, %d counted", answer.Status, r.counted(t, "127.0.0.1"))
		}
	})
}

func TestBodiesArePassedOnAsTheyCome(t *testing.T) {
	came, back := make(chan string), make(chan string)
	r := front(t, "10/1h", Options{}, func(w http.ResponseWriter, q *http.Request) {
		lines := bufio.NewScanner(q.Body)
		for lines.Scan() {
			came <- lines.Text()
		}
		came <- q.Trailer.Get("X-Client-Sum")
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Trailer", "X-Sum")
		for line := range back {
			fmt.Fprintln(w, line)
			w.(http.Flusher).Flush()
		}
		w.Header().Set("X-Sum", "8")
	})
	body, sent := io.Pipe()
	request, err := http.NewRequest(http.MethodPost, r.server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Trailer = http.Header{"X-Client-Sum": nil}
	answered := make(chan *http.Response, 1)
	go func() {
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
		}
		answered <- answer
	}()
	for i := range 5 { // each line arrives before the next is sent
		fmt.Fprintln(sent, i)
		if line := <-came; line != fmt.Sprint(i) {
			t.Fatalf("line %d: %q", i, line)
		}
	}
	request.Trailer.Set("X-Client-Sum", "7")
	sent.Close()
	if sum := <-came; sum != "7" {
		t.Errorf("the upstream saw the trailer %q", sum)
	}
	back <- "first"
	answer := <-answered
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	for _, next := range []string{"second", "third", ""} {
		if line, err := lines.ReadString('\n'); err != nil || line == "\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if next != "" {
			back <- next
		}
	}
	close(back)
	if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 || answer.Trailer.Get("X-Sum") != "8" {
		t.Errorf("%q, %v, trailer %v", rest, err, answer.Trailer)
	}
}

func TestALargeBodyIsNotHeld(t *testing.T) {
	const size = 256 << 20
	r := front(t, "10/1h", Options{}, func(w http.ResponseWriter, q *http.Request) {
		n, err := io.Copy(io.Discard, q.Body)
		fmt.Fprint(w, n, err)
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	answer, err := http.Post(r.server.URL, "application/octet-stream", io.LimitReader(zeros{}, size))
	if err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, answer); got != fmt.Sprint(size, nil) {
		t.Errorf("the upstream read %s", got)
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > size/16 {
		t.Errorf("%d bytes were allocated for %d", allocated, size)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestABodyOverTheBoundIsRefused(t *testing.T) {
	r := front(t, "10/1h", Options{MaxBody: 1000}, func(w http.ResponseWriter, q *http.Request) {
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
	})
	for _, c := range []struct {
		body    io.Reader
		status  int
		counted int64 // so far
	}{
		{strings.NewReader(strings.Repeat("x", 1000)), http.StatusOK, 1},
		{strings.NewReader(strings.Repeat("x", 1001)), http.StatusRequestEntityTooLarge, 1}, // its length is known before it is counted
		{io.LimitReader(zeros{}, 1000), http.StatusOK, 2},
		{io.LimitReader(zeros{}, 1001), http.StatusRequestEntityTooLarge, 3},
	} {
		answer, err := http.Post(r.server.URL, "text/plain", c.body)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, answer)
		if n := r.counted(t, "127.0.0.1"); answer.StatusCode != c.status || n != c.counted {
			t.Errorf("%s, want %d; %d counted, want %d", answer.Status, c.status, n, c.counted)
		}
	}
}

func TestWebSocketsArePassedOn(t *testing.T) {
	r := front(t, "10/1h", Options{}, func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Upgrade") != "websocket" || q.Header.Get("Connection") != "Upgrade" {
			t.Errorf("the upstream saw %v", q.Header)
		}
		conn, both, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(both, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		both.Flush()
		io.Copy(conn, both) // an echo
	})
	conn, err := net.Dial("tcp", r.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(conn, "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n")
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("RateLimit") == "" {
		t.Fatal(answer, err)
	}
	for _, word := range []string{"one\n", "\x00\xff two\n"} {
		io.WriteString(conn, word)
		if got, err := reader.ReadString('\n'); got != word {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if n := r.counted(t, "127.0.0.1"); n != 1 {
		t.Errorf("counted %d", n)
	}
}

func TestEarlyAnswersArePassedOn(t *testing.T) {
	r := front(t, "10/1h", Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
	})
	var early []int
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { early = append(early, code); return nil },
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if len(early) != 1 || early[0] != http.StatusEarlyHints ||
		answer.StatusCode != http.StatusNoContent || answer.Header.Get("RateLimit") == "" {
		t.Errorf("early %v, then %s with %v", early, answer.Status, answer.Header)
	}
}

// When the client leaves, the request to an upstream with an endless answer ends at once.
func TestAClientThatLeavesEndsTheUpstreamsRequest(t *testing.T) {
	left := make(chan error, 1)
	r := front(t, "10/1h", Options{}, func(w http.ResponseWriter, q *http.Request) {
		for q.Context().Err() == nil {
			if _, err := io.WriteString(w, "more\n"); err != nil {
				break
			}
			w.(http.Flusher).Flush()
		}
		<-q.Context().Done()
		left <- q.Context().Err()
	})
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	io.CopyN(io.Discard, answer.Body, 1<<20)
	leave()
	answer.Body.Close()
	select {
	case err := <-left:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the upstream still answers a client that has left")
	}
}

func TestASocketCanBeTheUpstream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, q.Host, q.URL) })}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	r := frontOf(t, "10/1h", Options{}, "unix:"+path)
	if answer, body := r.get(t, "/a"); answer.StatusCode != http.StatusOK || body != r.address()+"/a" {
		t.Errorf("%s %s", answer.Status, body)
	}
}

func TestWhatIsSkippedIsPassedOnUncounted(t *testing.T) {
	upstream := startStrict(t)
	settings := settingsOf(t, "fixed-window:1/1h")
	rule := settings.HTTP.Rules["door"]
	rule.Skip = httplimit.Skip{Paths: []string{"/static/*"}}
	settings.HTTP.Rules["door"] = rule
	r := newRig(t, settings, Options{Upstream: upstream.upstream(t, "")})
	for range 3 {
		if answer, _ := r.get(t, "/static/a.css"); answer.StatusCode != http.StatusOK || answer.Header.Get("RateLimit") != "" {
			t.Errorf("%s, %v", answer.Status, answer.Header)
		}
	}
	if answers := r.exchange(t, "GET /static/%2e%2e/login HTTP/1.1\r\nHost: a\r\n\r\n", 1); answers[0].StatusCode != http.StatusBadRequest {
		t.Errorf("a way out of what is skipped: %s", answers[0].Status)
	}
	r.get(t, "/static//a.css")
	if answer, _ := r.get(t, "/static;/a.css"); answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("%s", answer.Status)
	}
}

func TestAnAbsentAttributeIsRefused(t *testing.T) {
	upstream := startStrict(t)
	settings := settingsOf(t, "10/1h")
	settings.HTTP.Rules = nil
	r := newRig(t, settings, Options{Upstream: upstream.upstream(t, "")})
	answer, body := r.get(t, "/")
	if answer.StatusCode != http.StatusBadRequest || !strings.Contains(body, "exactly one value for ip") || len(upstream.requests(t)) != 0 {
		t.Errorf("%s %s", answer.Status, body)
	}
}

func TestALeakyBucketHoldsRequestsUntilTheirTurn(t *testing.T) {
	r := front(t, "leaky-bucket:20/1s,burst=2", Options{}, func(http.ResponseWriter, *http.Request) {})
	begun := time.Now()
	for range 3 { // the second and the third wait for 50 ms each
		if answer, _ := r.get(t, "/"); answer.StatusCode != http.StatusOK {
			t.Errorf("%s", answer.Status)
		}
	}
	if took := time.Since(begun); took < 95*time.Millisecond {
		t.Errorf("all three took %v", took)
	}
}
