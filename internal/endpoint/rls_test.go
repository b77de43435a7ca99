package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// rlsServer is a rate limit service that answers with answer, until the test ends.
func rlsServer(t *testing.T, secure bool,
	answer func(http.ResponseWriter, *http.Request, *rls.Request)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil { // the caller gave up
			return
		}
		if r.URL.Path != "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" || r.ProtoMajor != 2 ||
			r.Header.Get("Te") != "trailers" || r.Header.Get("Content-Type") != "application/grpc+proto" ||
			len(body) < 5 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5 {
			t.Errorf("%s %s with %v and %x", r.Method, r.URL, r.Header, body)
			return
		}
		request, err := rls.ReadRequest(body[5:])
		if err != nil {
			t.Error(err)
		}
		answer(w, r, request)
	}))
	s.Config.Protocols = new(http.Protocols)
	if secure {
		s.Config.Protocols.SetHTTP2(true)
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// say answers a call with a message.
func say(w http.ResponseWriter, message []byte) {
	w.Header().Set("Content-Type", "application/grpc+proto")
	w.Header().Set("Trailer", "Grpc-Status")
	w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
	w.Header().Set("Grpc-Status", "0")
}

func TestWhatARateLimitServiceIsAskedAndAnswers(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var asked []rls.Request
		s := rlsServer(t, secure, func(w http.ResponseWriter, r *http.Request, request *rls.Request) {
			asked = append(asked, *request)
			if !strings.HasPrefix(r.Header.Get("User-Agent"), "limitctl test ") ||
				r.Header.Get("Authorization") != "Bearer t" ||
				r.Header.Get("Grpc-Timeout") == "" {
				t.Errorf("the request has %v", r.Header)
			}
			overall := rls.OK
			if request.Hits > 5 {
				overall = rls.OverLimit
			}
			m := rls.AppendOverall(nil, overall)
			m = rls.AppendStatus(m, &rls.Status{Code: rls.OK})
			m = rls.AppendStatus(m, &rls.Status{Code: overall, HasLimit: true, Name: "p/l", RequestsPerUnit: 5, Unit: 2,
				Remaining: 3,
				HasReset:  true, ResetSeconds: 7, ResetNanos: 5e8})
			say(w, rls.AppendHeader(rls.AppendHeader(m, "ratelimit", `"l";r=3;t=8`), "retry-after", "8"))
		})
		url, trust := "grpc"+strings.TrimPrefix(s.URL, "http"), (*tls.Config)(nil)
		if secure {
			url = "grpcs" + strings.TrimPrefix(s.URL, "https")
			trust = &tls.Config{RootCAs: x509.NewCertPool()}
			trust.RootCAs.AddCert(s.Certificate())
		}
		client := newClient(t, Options{URL: url, Domain: "edge", UserAgent: "limitctl test", TLS: trust,
			Headers: []string{"authorization: Bearer t"}, Descriptors: []string{
				"generic_key=login", "user=a-{subject},path=/x"}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		before := time.Now()
		var allowed, denied, peeked Answer
		if err := errors.Join(client.Connect(ctx), client.Send(ctx, "bob", 2, &allowed),
			client.Send(ctx, "bob", 6, &denied),
			client.(*rlsClient).ask(ctx, "bob", 0, &peeked)); err != nil {
			t.Fatal(err)
		}
		if allowed.Outcome != Allowed || denied.Outcome != Denied || peeked.Outcome != Allowed || allowed.Status != 0 {
			t.Errorf("%+v, %+v, %+v", allowed, denied, peeked)
		}
		if allowed.Sent.Before(before) || allowed.Answered.Before(allowed.Sent) ||
			denied.Sent.Before(allowed.Answered) {
			t.Errorf("sent at %s, answered at %s", allowed.Sent, allowed.Answered)
		}
		want := rls.Status{Code: rls.OverLimit, HasLimit: true, Name: "p/l", RequestsPerUnit: 5, Unit: 2, Remaining: 3,
			HasReset: true, ResetSeconds: 7, ResetNanos: 5e8}
		if !reflect.DeepEqual(denied.Statuses, []rls.Status{{Code: rls.OK}, want}) ||
			denied.Header.Get("Retry-After") != "8" ||
			denied.Header.Get("RateLimit") != `"l";r=3;t=8` {
			t.Errorf("told %+v and %v", denied.Statuses, denied.Header)
		}
		user := rls.Descriptor{Entries: []rls.Entry{{Key: "user", Value: "a-bob"}, {Key: "path", Value: "/x"}}}
		login := rls.Descriptor{Entries: []rls.Entry{{Key: "generic_key", Value: "login"}}}
		first := rls.Request{Domain: "edge", Hits: 2, Descriptors: []rls.Descriptor{login, user}}
		if !reflect.DeepEqual(asked[1], first) {
			t.Errorf("asked %+v, want %+v", asked[1], first)
		}
		// Each descriptor says that it costs nothing; without it the request would mean 1.
		for _, d := range append(asked[0].Descriptors, asked[3].Descriptors...) {
			if !d.HasHits || d.Hits != 0 {
				t.Errorf("a peek asks for %+v", d)
			}
		}
		if asked[0].Descriptors[1].Entries[0].Value == user.Entries[0].Value {
			t.Error("Connect asks as a subject of the load")
		}
	}
}

func TestWhatIsNoAnswerOfARateLimitService(t *testing.T) {
	var answer func(w http.ResponseWriter, r *http.Request)
	s := rlsServer(t, false, func(w http.ResponseWriter, r *http.Request, _ *rls.Request) { answer(w, r) })
	client := newClient(t, Options{URL: "grpc" + strings.TrimPrefix(s.URL, "http"), Domain: "d", Descriptors: []string{
		"k={subject}"}})
	var opened time.Time
	client.(*rlsClient).dialer.ControlContext = func(context.Context, string, string, syscall.RawConn) error {
		opened = time.Now()
		return nil
	}
	ofGRPC := func(fields ...string) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			for i := 0; i < len(fields); i += 2 {
				w.Header().Set(fields[i], fields[i+1])
			}
		}
	}
	message := func(m string) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) { say(w, []byte(m)) }
	}
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request)
		failed string // the reason of an endpoint that failed
		status int
		err    string
	}{
		{"an error with words", ofGRPC("Grpc-Status", "14", "Grpc-Message", "no store%0Ain 5%25"),
			"answered UNAVAILABLE: no store\nin 5%", 14, ""},
		{"a proxy", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusBadGateway) },
			"answered UNAVAILABLE: unexpected HTTP status code received from server: 502 (Bad Gateway)",
			14, ""},
		{"another message", message("\x0b"), "", 0, rls.ErrNotAResponse.Error()},
		{"neither yes nor no", message(""), "answered neither OK nor OVER_LIMIT", 0, ""},
		{"a very long one", message(strings.Repeat("x", maxMessage+1)),
			"answered RESOURCE_EXHAUSTED: grpc: received message " +
				"larger than max (1048577 vs. 1048576)", 8, ""},
		{"an end", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "", 0, notTheProtocol},
	} {
		answer = c.answer
		var got Answer
		err := client.Send(t.Context(), "s", 1, &got)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || got.Outcome != Failed || got.Reason != c.failed || got.Status != c.status ||
			got.Sent.Before(opened) {
			t.Errorf("%s: %+v, %v, on a connection of %s", c.name, got, err, opened)
		}
		if err := client.Connect(t.Context()); err == nil || !strings.HasSuffix(err.Error(), c.failed) {
			t.Errorf("%s: Connect says %v", c.name, err)
		}
	}

	// A deadline ends a call, and the service receives it.
	told := make(chan string, 10)
	answer = func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header.Get("Grpc-Timeout")
		<-r.Context().Done()
	}
	redistest.Patiently(t, 30*time.Millisecond, func(timeout time.Duration) (missing error) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		if err := client.Send(ctx, "s", 1, new(Answer)); !errors.Is(err, store.ErrOutcomeUnknown) &&
			!errors.Is(err, store.ErrGaveUp) {
			t.Errorf("after the deadline: %v", err)
		}
		select {
		case text := <-told:
			left, err := time.ParseDuration(strings.NewReplacer("n", "ns", "u", "us", "m", "ms").Replace(text))
			if err != nil || left <= 0 || left > timeout {
				t.Errorf("the deadline is told as %q", text)
			}
			return nil
		default:
			return errors.New("the service was not asked in time")
		}
	})
	if err := client.Send(t.Context(), "s", 1<<32, new(Answer)); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a cost that does not fit: %v", err)
	}
}

func TestWhatIsWrongWithARateLimitServicesOptions(t *testing.T) {
	const good = "grpc://127.0.0.1:8081"
	for _, c := range []struct {
		options Options
		want    string // contained in the error
	}{
		{Options{URL: "grpc://127.0.0.1", Domain: "d", Descriptors: []string{"k=v"}}, "grpc://HOST:PORT"},
		{Options{URL: "grpc://me:secret@127.0.0.1:1/", Domain: "d", Descriptors: []string{"k=v"}}, "me:xxxxx@"},
		{Options{URL: good + "/path", Domain: "d", Descriptors: []string{"k=v"}}, "grpc://HOST:PORT"},
		{Options{URL: "grpc://192.0.2.1:8081", Domain: "d", Descriptors: []string{"k=v"}},
			"--i-may-test-this-host 192.0.2.1"},
		{Options{URL: good, Domain: "d", Descriptors: []string{"k=v"}, TLS: new(tls.Config)},
			"certificates are for https"},
		{Options{URL: good, Descriptors: []string{"k=v"}}, "--domain NAME --descriptor"},
		{Options{URL: good, Domain: "d", Descriptors: []string{"k"}}, `"k" is not KEY=VALUE`},
		{Options{URL: good, Domain: "d", Descriptors: []string{`k=a\,b=c`}}, "a value has no comma"},
		{Options{URL: good, Domain: "d", Descriptors: []string{"k=v"}, Headers: []string{"grpc-timeout: 1S"}},
			"--header Grpc-Timeout is"},
		{Options{URL: good, Domain: "d", Descriptors: []string{"k=v"}, Headers: []string{"a: {subject}"}},
			"put {subject} into a --descriptor"},
	} {
		if _, err := New(c.options); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %q", c.options, err, c.want)
		}
	}
	permitted := Options{URL: "GRPC://192.0.2.1:8081", Domain: "d", Descriptors: []string{"k="}, Permitted: []string{
		"192.0.2.1"}}
	if _, err := New(permitted); err != nil {
		t.Error(err)
	}
}
