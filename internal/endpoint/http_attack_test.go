package endpoint

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// listen serves each connection with a function until the test ends.
func listen(t *testing.T, serve func(conn net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				over := make(chan struct{})
				go func() {
					select {
					case <-done: // ends the attack
					case <-over:
					}
					conn.Close()
				}()
				serve(conn)
				close(over)
			}()
		}
	}()
	t.Cleanup(func() {
		close(done)
		listener.Close()
		<-served
	})
	return listener.Addr().String()
}

// request reads a request without a body.
func request(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil || line == "\r\n" {
			return
		}
	}
}

// endless writes a text again and again until nobody reads it.
func endless(conn net.Conn, text string) {
	long := strings.Repeat(text, max(1, 1<<15/len(text)))
	for {
		if _, err := io.WriteString(conn, long); err != nil {
			return
		}
	}
}

func hang(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// newClient returns a client of a URL.
func newClient(t *testing.T, options Options) Client {
	t.Helper()
	client, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// patiently repeats a request until it fails with the wanted error, each time with more time if the time was too
// short: on a slow machine a short time can end too early.
func patiently(t *testing.T, timeout time.Duration, wanted func(error) bool, ask func(context.Context) error) (
	err error) {
	t.Helper()
	for ; ; timeout *= 4 {
		ctx, cancel := store.BudgetContext(t.Context(), timeout)
		err = ask(ctx)
		cancel()
		if err == nil || wanted(err) || timeout >= 10*time.Second || !strings.Contains(err.Error(), "in time") {
			return err
		}
	}
}

// The types of HTTP/2 frames that the tests send.
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway = 0, 1, 3, 4, 7
)

// frame is an HTTP/2 frame.
func frame(kind, flags byte, stream uint32, payload string) string {
	head := make([]byte, 9)
	binary.BigEndian.PutUint32(head, uint32(len(payload))<<8|uint32(kind))
	head[4] = flags
	binary.BigEndian.PutUint32(head[5:], stream)
	return string(head) + payload
}

// untilHeaders reads an HTTP/2 client's frames until a request.
func untilHeaders(conn net.Conn) bool {
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return false
	}
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(conn, head); err != nil {
			return false
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, conn, length); err != nil {
			return false
		}
		if head[3] == frameHeaders {
			return true
		}
	}
}

func TestHostileServersEndInErrorsThatCanBeCounted(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	// Short enough for a test, and long enough for requests that need not wait.
	const short, ample = 300 * time.Millisecond, time.Minute
	says := func(text string) func(net.Conn) {
		return func(conn net.Conn) { request(conn); io.WriteString(conn, text) }
	}
	// 0x88 is the header ":status: 200".
	asked := func(then func(net.Conn)) func(net.Conn) {
		return func(conn net.Conn) {
			io.WriteString(conn, frame(frameSettings, 0, 0, ""))
			if untilHeaders(conn) {
				then(conn)
			}
		}
	}
	saysHTTP2 := func(text string) func(net.Conn) {
		return asked(func(conn net.Conn) { io.WriteString(conn, text); hang(conn) })
	}
	for _, test := range []struct {
		name    string
		serve   func(net.Conn)
		timeout time.Duration
		want    string // one of several, with | between
	}{
		{"closes at once", func(net.Conn) {}, ample, "the server closed the connection without an answer"},
		{"hangs", hang, short, "no answer in time"},
		{"a body one byte at a time", func(conn net.Conn) {
			request(conn)
			io.WriteString(conn, ok+"Content-Length: 1000000\r\n\r\n")
			for {
				if _, err := io.WriteString(conn, "x"); err != nil {
					return
				}
				time.Sleep(short / 20)
			}
		}, short, reading.late},
		{"endless headers", func(conn net.Conn) {
			request(conn)
			io.WriteString(conn, ok)
			endless(conn, "X-A: b\r\n")
		},
			ample, "the answer's headers are longer than 64 KiB"},
		{"an endless header", func(conn net.Conn) {
			request(conn)
			io.WriteString(conn, ok+"X-A: ")
			endless(conn, "b")
		},
			ample, "the answer's headers are longer than 64 KiB"},
		{"half of the headers", says(ok + "X-A"), ample, reading.ended},
		{"two lengths", says(ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), ample, notTheProtocol},
		{"interim answers without an end", func(conn net.Conn) {
			request(conn)
			endless(conn, "HTTP/1.1 100 Continue\r\n\r\n")
		},
			ample, notTheProtocol},
		{"another protocol", says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
			ample, notTheProtocol},
		{"no HTTP", says("+OK\r\n"), ample, notTheProtocol},
		{"a TLS alert", says("\x15\x03\x01\x00\x02\x02\x46"), ample, reading.ended},
		{"HTTP/2: hangs", saysHTTP2(""), short, "no answer in time"},
		{"HTTP/2: goes away after the request", asked(func(conn net.Conn) {
			io.WriteString(conn, frame(frameGoAway, 0, 0, "\x00\x00\x00\x01\x00\x00\x00\x02"))
		}), ample,
			"the server closed the connection without an answer|" + notTheProtocol},
		{"HTTP/2: resets the stream", saysHTTP2(frame(frameReset, 0, 1, "\x00\x00\x00\x02")), ample, notTheProtocol},
		{"HTTP/2: a body that hangs", saysHTTP2(frame(frameHeaders, 4, 1, "\x88") + frame(frameData, 0, 1, "abc")),
			short,
			reading.late},
		{"HTTP/2: noise", func(conn net.Conn) { io.WriteString(conn, "+OK\r\n+OK\r\n+OK\r\n+OK\r\n"); hang(conn) },
			ample,
			notTheProtocol},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, Options{URL: "http://" + listen(t, test.serve) + "/{subject}",
				HTTP2: strings.HasPrefix(test.name, "HTTP/2")})
			var answer Answer
			wanted := func(err error) bool { return slices.Contains(strings.Split(test.want, "|"), err.Error()) }
			err := patiently(t, test.timeout, wanted, func(ctx context.Context) error {
				return client.Send(ctx, "user:1", 1, &answer)
			})
			switch {
			case err == nil:
				t.Fatalf("an answer of status %d", answer.Status)
			case !wanted(err):
				t.Errorf("error %q, want %q", err, test.want)
			case !errors.Is(err, store.ErrOutcomeUnknown):
				t.Errorf("%q does not say that the request may have been counted", err)
			}
		})
	}
}

func TestServersThatCannotBeReached(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	listener.Close()
	stalls := listen(t, hang)
	for _, test := range []struct{ url, want string }{
		{"http://" + nobody, "connection refused"},
		{"https://" + nobody, "connection refused"},
		{"https://" + stalls, connecting.late},
		{"https://" + listen(t, func(conn net.Conn) { io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") }),
			"the server does not speak TLS; write http://"},
		{"https://" + listen(t, func(net.Conn) {}), connecting.ended},
	} {
		for _, http2 := range []bool{false, true} {
			client := newClient(t, Options{URL: test.url, HTTP2: http2})
			for name, ask := range map[string]func(context.Context) error{
				"connecting": client.Connect,
				"asking":     func(ctx context.Context) error { return client.Send(ctx, "user:1", 1, new(Answer)) },
			} {
				timeout := time.Minute
				if strings.Contains(test.want, "in time") {
					timeout = 300 * time.Millisecond
				}
				wanted := func(err error) bool { return err.Error() == test.want }
				err := patiently(t, timeout, wanted, ask)
				if err == nil || !wanted(err) {
					t.Fatalf("%s %s (HTTP/2: %v): error %v, want %q", name, test.url, http2, err, test.want)
				}
				if errors.Is(err, store.ErrOutcomeUnknown) || !store.IsAway(err) {
					t.Errorf("%s %s: %v says that something was sent", name, test.url, err)
				}
			}
		}
	}
}

// Nobody knows whether a server that closes the connection has counted the request, so it is not sent again.
func TestARequestIsSentOnce(t *testing.T) {
	for _, answers := range []int{0, 1} { // before the close, on the same connection
		var asked atomic.Int32
		client := newClient(t, Options{URL: "http://" + listen(t, func(conn net.Conn) {
			for in := bufio.NewReader(conn); ; {
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				if asked.Add(1) > int32(answers) {
					return
				}
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		})})
		for range answers {
			if err := client.Send(t.Context(), "", 1, new(Answer)); err != nil {
				t.Fatal(err)
			}
		}
		err := client.Send(t.Context(), "", 1, new(Answer))
		if err == nil || !errors.Is(err, store.ErrOutcomeUnknown) || asked.Load() != int32(answers)+1 {
			t.Errorf("after %d answers: %d requests arrived, error %v", answers, asked.Load(), err)
		}
		if o := client.Openings(); o.Count != 1 {
			t.Errorf("after %d answers: %d connections", answers, o.Count)
		}
	}
}

// Interim answers, and the trailer of a body in chunks, do not disturb the answers after them.
func TestAnswersInARowOverOneConnection(t *testing.T) {
	client := newClient(t, Options{URL: "http://" + listen(t, func(conn net.Conn) {
		for in, status := bufio.NewReader(conn), 201; ; status++ {
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			fmt.Fprintf(conn, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"+
				"HTTP/1.1 %d Is\r\nx-ratelimit-limit: 1\r\nX-RateLimit-Limit: %d\r\nTransfer-Encoding: chunked\r\n\r\n"+
				"3\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n", status, status)
		}
	})})
	for status := 201; status < 204; status++ {
		var answer Answer
		if err := client.Send(t.Context(), "", 1, &answer); err != nil || answer.Status != status ||
			strings.Join(answer.Header.Values("X-RateLimit-Limit"), " ") != fmt.Sprint(1, " ", status) ||
			answer.Header.Get("Link")+answer.Header.Get("Content-Type") != "" {
			t.Errorf("%v, %+v", err, answer)
		}
	}
	if o := client.Openings(); o.Count != 1 {
		t.Errorf("%d connections", o.Count)
	}
}

func TestAnEndlessBodyIsCutAndCounted(t *testing.T) {
	for name, begin := range map[string]string{
		"of a length":      "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 99999999999\r\n\r\n",
		"without a length": "HTTP/1.1 429 Too Many Requests\r\n\r\n",
		"in chunks":        "HTTP/1.1 429 Too Many Requests\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, Options{URL: "http://" + listen(t, func(conn net.Conn) {
				request(conn)
				io.WriteString(conn, begin)
				endless(conn, "1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n")
			})})
			for range 3 {
				var answer Answer
				if err := client.Send(t.Context(), "", 1, &answer); err != nil || answer.Outcome != Denied {
					t.Fatalf("%v, outcome %v", err, answer.Outcome)
				}
			}
			if o := client.Openings(); o.LongBodies != 3 || o.Count != 3 {
				t.Errorf("%d long bodies over %d connections", o.LongBodies, o.Count)
			}
		})
	}
}

func TestAnAnswerNobodyAskedForIsNotTakenForTheNext(t *testing.T) {
	sent := make(chan struct{}, 1)
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	client := newClient(t, Options{URL: "http://" + listen(t, func(conn net.Conn) {
		request(conn)
		io.WriteString(conn, ok)
		io.WriteString(conn, ok)
		sent <- struct{}{}
		hang(conn)
	})})
	if err := client.Send(t.Context(), "", 1, new(Answer)); err != nil {
		t.Fatal(err)
	}
	<-sent
	if err := client.Send(t.Context(), "", 1, new(Answer)); err != nil {
		t.Errorf("error %v", err)
	}
	if o := client.Openings(); o.Count != 2 {
		t.Errorf("%d connections", o.Count)
	}
}

// A context ends its own requests, and none after them on the same connection.
func TestTheEndOfAContextEndsARequest(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		asked, answers := make(chan struct{}), make(chan struct{})
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			select {
			case <-answers:
			case <-r.Context().Done():
			}
		}))
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetHTTP1(true)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Start()
		defer server.Close()
		client := newClient(t, Options{HTTP2: http2, URL: server.URL})
		ended := make(chan error, 1)
		send := func(ctx context.Context) {
			go func() { ended <- client.Send(ctx, "", 1, new(Answer)) }()
			<-asked
		}
		first, cancelFirst := store.BudgetContext(t.Context(), time.Minute)
		send(first)
		answers <- struct{}{}
		if err := <-ended; err != nil {
			t.Fatalf("HTTP/2 %v: error %v", http2, err)
		}
		second, cancelSecond := store.BudgetContext(t.Context(), time.Minute)
		send(second)
		cancelFirst() // ends only its own requests
		answers <- struct{}{}
		if err := <-ended; err != nil {
			t.Fatalf("HTTP/2 %v: error %v after the end of an earlier context", http2, err)
		}
		send(second)
		cancelSecond()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("HTTP/2 %v: error %v", http2, err)
		}
	}
}
