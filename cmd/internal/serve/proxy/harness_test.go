package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// rig is a proxy on a port of the loopback, in front of an upstream.
type rig struct {
	store  *memorystore.Store
	server *httptest.Server
	policy *policy.Policy
}

// settingsOf has a policy "door" with that limit for each client, and its settings for HTTP.
func settingsOf(t *testing.T, limit string) *engine.Settings {
	t.Helper()
	parsed, err := store.ParseLimit(limit)
	if err != nil {
		t.Fatal(err)
	}
	p := &policy.Policy{Name: "door", Limits: []policy.Limit{{Name: "client", By: []string{"ip"}, Limit: parsed}}}
	return &engine.Settings{Policies: []*policy.Policy{p}, HTTP: httplimit.Settings{
		Headers: httplimit.AllHeaders,
		Rules:   map[string]httplimit.Rule{"door": {Attributes: map[string]httplimit.Source{"ip": source(t, "client")}}},
	}}
}

func source(t *testing.T, text string) httplimit.Source {
	t.Helper()
	s, err := httplimit.ParseSource(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newRig starts a proxy with these settings in front of upstream.
func newRig(t *testing.T, settings *engine.Settings, options Options) *rig {
	t.Helper()
	backend := memorystore.New()
	t.Cleanup(func() { backend.Close() })
	e := engine.New(backend, settings, engine.Options{Timeout: time.Minute})
	t.Cleanup(func() { e.Close() })
	options.Policy = "door"
	options.Log = slog.New(slog.DiscardHandler)
	server := httptest.NewServer(Handler(e, options))
	t.Cleanup(server.Close)
	return &rig{backend, server, settings.Policies[0]}
}

func (r *rig) address() string { return r.server.Listener.Addr().String() }

// counted returns the number of charged requests of that client.
func (r *rig) counted(t *testing.T, ip string) int64 {
	t.Helper()
	reqs, err := r.policy.Requests(policy.Attributes{"ip": ip}, 1)
	if err != nil {
		t.Fatal(err)
	}
	decisions := make([]store.Decision, len(reqs))
	if err := r.store.Decide(context.Background(), store.Peek, reqs, decisions); err != nil {
		t.Fatal(err)
	}
	return decisions[0].Used
}

// exchange sends bytes unchanged, and returns n answers and what else the proxy sends before it notices that the
// client has left.
func (r *rig) exchange(t *testing.T, raw string, n int) []*http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", r.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	var answers []*http.Response
	reader := bufio.NewReader(conn)
	for {
		if len(answers) == n {
			conn.(*net.TCPConn).CloseWrite() // makes the proxy end the connection
		}
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			return answers
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body = io.NopCloser(strings.NewReader(string(body)))
		answers = append(answers, answer)
	}
}

// strict is an upstream that accepts only what has a single reading: it records each request, and whatever a
// careful parser would refuse.
type strict struct {
	address string
	mu      sync.Mutex
	seen    []seen
	wrong   []string
}

// seen is a request as it arrived.
type seen struct {
	line   string
	header textproto.MIMEHeader
	body   string
}

func startStrict(t *testing.T) *strict {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &strict{address: listener.Addr().String()}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer conn.Close()
				// The proxy has to break off what its client breaks off.
				if err := s.serve(conn); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					s.mu.Lock()
					s.wrong = append(s.wrong, err.Error())
					s.mu.Unlock()
				}
			})
		}
	})
	t.Cleanup(func() { listener.Close() })
	return s
}

func (s *strict) upstream(t *testing.T, path string) *Upstream {
	t.Helper()
	u, err := ParseUpstream("http://" + s.address + path)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// requests returns the requests, and fails the test if anything had two readings.
func (s *strict) requests(t *testing.T) []seen {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, wrong := range s.wrong {
		t.Errorf("the upstream got something malformed: %s", wrong)
	}
	return append([]seen(nil), s.seen...)
}

func (s *strict) serve(conn net.Conn) error {
	reader := bufio.NewReader(conn)
	for {
		request, err := readStrict(reader)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.seen = append(s.seen, request)
		s.mu.Unlock()
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return err
		}
	}
}

// readStrict reads a request, and refuses all that RFC 9112 lets a server refuse.
func readStrict(reader *bufio.Reader) (r seen, err error) {
	r.header = textproto.MIMEHeader{}
	if r.line, err = strictLine(reader); err != nil {
		return r, err
	}
	for {
		line, err := strictLine(reader)
		if err != nil {
			return r, fmt.Errorf("in a header: %w", err)
		}
		if line == "" {
			break
		}
		name, value, colon := strings.Cut(line, ":")
		if !colon || name == "" || strings.ContainsAny(name, " \t") {
			return r, fmt.Errorf("header line %q", line)
		}
		r.header.Add(name, strings.TrimSpace(value))
	}
	lengths, encodings := r.header["Content-Length"], r.header["Transfer-Encoding"]
	if len(r.header["Host"]) != 1 || len(lengths)+len(encodings) > 1 || len(encodings) == 1 && encodings[0] != "chunked" {
		return r, fmt.Errorf("headers %v", r.header)
	}
	if len(lengths) == 1 {
		n, err := strconv.ParseUint(lengths[0], 10, 32)
		body := make([]byte, n)
		if err == nil {
			_, err = io.ReadFull(reader, body)
		}
		r.body = string(body)
		return r, err
	}
	for len(encodings) == 1 {
		size, err := strictLine(reader)
		n, wrong := strconv.ParseUint(size, 16, 32)
		if err != nil {
			return r, err
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(reader, chunk); err != nil {
			return r, err
		}
		if wrong != nil || string(chunk[n:]) != "\r\n" {
			return r, fmt.Errorf("chunk of size %q: %q", size, chunk)
		}
		if n == 0 {
			break
		}
		r.body += string(chunk[:n])
	}
	return r, nil
}

// strictLine reads a line that ends with CR and LF, and has neither inside.
func strictLine(reader *bufio.Reader) (string, error) {
	line, err := reader.ReadString('\n')
	if err != nil {
		if line == "" {
			return "", io.EOF
		}
		return "", fmt.Errorf("%q: %w", line, err)
	}
	line, ended := strings.CutSuffix(line, "\r\n")
	if !ended || strings.ContainsAny(line, "\r\x00") {
		return "", fmt.Errorf("line %q", line)
	}
	return line, nil
}

// prefixes parses networks.
func prefixes(t *testing.T, texts ...string) (all []netip.Prefix) {
	t.Helper()
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}
