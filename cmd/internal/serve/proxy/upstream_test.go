package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

func TestParseUpstream(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:3000":    "http://127.0.0.1:3000",
		"https://app.internal/api": "https://app.internal/api",
		"http://[::1]:3000/":       "http://[::1]:3000/",
		"h2c://127.0.0.1:3000/a":   "h2c://127.0.0.1:3000/a",
		"h2c://":                   "! h2c://127.0.0.1:3000",
		"h2c://a?b":                "! ends with its path",
		"unix:/run/app.sock":       "unix:/run/app.sock",
		"unix:///run/app.sock":     "unix:/run/app.sock",
		"":                         "! http://127.0.0.1:3000",
		"127.0.0.1:3000":           "! http://127.0.0.1:3000",
		"localhost:3000":           "! http://127.0.0.1:3000",
		"ftp://a":                  "! http://127.0.0.1:3000",
		"http://:3000":             "! http://127.0.0.1:3000",
		"http://a?b":               "! ends with its path",
		"http://a?":                "! ends with its path",
		"http://a#b":               "! ends with its path",
		"http://me:secret@a":       "! user or password",
		"http://%zz":               "! http://127.0.0.1:3000",
		"unix:run/app.sock":        "! begins with /",
	} {
		u, err := ParseUpstream(text)
		if part, wrong := strings.CutPrefix(want, "! "); wrong {
			if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: error %v, want one with %q", text, err, part)
			}
			continue
		}
		if err != nil || u.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, u, err, want)
		}
	}
}

// An upstream can speak HTTP/2 without TLS, as many gRPC services do. Trailers pass in both directions, and a client cannot
// leave HTTP.
func TestAnUpstreamCanSpeakHTTP2WithoutTLS(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "Grpc-Status")
		w.Header().Set("X-Saw", r.Proto+" "+r.Header.Get("Te")+" "+r.Header.Get("Upgrade")+string(body)+r.Trailer.Get("X-End"))
		if err != nil {
			w.Header().Set("X-Saw", err.Error())
		}
		io.WriteString(w, "answer")
		w.(http.Flusher).Flush() // otherwise the answer has a length, with which HTTP/1.1 has no trailers
		w.Header().Set("Grpc-Status", "0")
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-ended })
	upstream, err := ParseUpstream("h2c://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, settingsOf(t, "1000/1h"), Options{Upstream: upstream})
	const trailers = "Trailer: X-End\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nq\r\n0\r\nX-End: e\r\n\r\n"
	for raw, saw := range map[string]string{
		"POST /a HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n" + trailers:                      "HTTP/2.0 trailers qe",
		"GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n": "HTTP/2.0",
	} {
		answers := r.exchange(t, raw, 1)
		if len(answers) != 1 {
			t.Fatalf("%q: %d answers", raw, len(answers))
		}
		body, _ := io.ReadAll(answers[0].Body)
		got, status := answers[0].Header.Get("X-Saw"), answers[0].Trailer.Get("Grpc-Status")
		if answers[0].StatusCode != 200 || got != saw || string(body) != "answer" || status != "0" {
			t.Errorf("%q: %s, %q, body %q, trailers %v", raw, answers[0].Status, got, body, answers[0].Trailer)
		}
	}
}

// closedBody is the body of a request whose answer has begun.
type closedBody struct{ io.ReadCloser }

func (closedBody) Read([]byte) (int, error) { return 0, http.ErrBodyReadAfterClose }

// The end of a body that the upstream no longer needs is no error for as long as the answer goes on.
func TestABodyThatIsNoLongerNeededIsNoError(t *testing.T) {
	for _, how := range []string{"the transport closes it", "the answer ends"} {
		synctest.Test(t, func(t *testing.T) {
			closed, answered := make(chan error, 1), make(chan struct{})
			b := &sentBody{ReadCloser: closedBody{http.NoBody}, closed: make(chan struct{}), ended: answered}
			go func() {
				_, err := b.Read(nil)
				closed <- err
			}()
			synctest.Wait()
			select {
			case err := <-closed:
				t.Errorf("%s: %v came before", how, err)
				return
			default:
			}
			if how == "the answer ends" {
				close(answered)
			} else {
				b.Close()
				b.Close()
			}
			if err := <-closed; !errors.Is(err, http.ErrBodyReadAfterClose) {
				t.Errorf("%s: %v", how, err)
			}
		})
	}
}
