package serve

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A request whose length can be read in two ways is the last one of its connection, so that what follows it is no request.
// All others leave the connection open.
func TestARequestWithTwoLengthsIsTheLast(t *testing.T) {
	const behind = "GET /behind HTTP/1.1\r\nHost: x\r\n\r\n"
	post := func(proto, fields, body string) string {
		return "POST / HTTP/" + proto + "\r\nHost: x\r\n" + fields + "\r\n" + body
	}
	for _, test := range []struct {
		name, raw string
		body      string // of the first answer
		last      bool
	}{
		{"chunked", post("1.1", "Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\n\r\n"), "a", false},
		{"a length", post("1.1", "Content-Length: 1\r\n", "a"), "a", false},
		{"length and chunked", post("1.1", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\n\r\n"), "a", true},
		{"chunked and length", post("1.1", "Transfer-Encoding: chunked\r\ncontent-LENGTH:6\r\n", "1\r\na\r\n0\r\n\r\n"), "a", true},
		{"a folded encoding", post("1.1", "Content-Length: 6\nTransfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), "", true},
		{"a length that is a value", post("1.1", "X: Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "", false},
		{"a longer name", post("1.1", "Content-Length-Of: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "", true},
		{"HTTP/1.0 with a length", post("1.0", "Connection: keep-alive\r\nContent-Length: 1\r\n", "a"), "a", false},
		{"HTTP/1.0 that is chunked", post("1.0", "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n", ""), "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, Listener{Handler: echo, RequestTime: bounded}, Options{}, func(b *bubble) {
				c := b.dial()
				c.send(test.raw + behind)
				response, body := c.answer()
				if response.StatusCode != http.StatusOK || body != test.body || response.Close != test.last {
					t.Errorf("status %s, body %q, closed %t", response.Status, body, response.Close)
				}
				if test.last {
					c.checkLeft(0)
					return
				}
				if response, _ := c.answer(); response.StatusCode != http.StatusOK {
					t.Errorf("the request behind it: status %s", response.Status)
				}
				c.Close()
			})
		})
	}
}

// The end of the connection survives an early answer of an upstream, which removes the fields that were set before.
func TestAnEarlyAnswerKeepsTheEnd(t *testing.T) {
	early := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		clear(w.Header())
		w.WriteHeader(http.StatusOK)
	})
	inBubble(t, Listener{Handler: early, RequestTime: bounded}, Options{}, func(b *bubble) {
		c := b.dial()
		c.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get)
		if response, _ := c.answer(); response.StatusCode != http.StatusEarlyHints {
			t.Errorf("status %s", response.Status)
		}
		if response, _ := c.answer(); response.StatusCode != http.StatusOK || !response.Close {
			t.Errorf("status %s, closed %t", response.Status, response.Close)
		}
		c.checkLeft(0)
	})
}

// A field is found wherever the bytes are cut.
func TestFramingFindsFieldsInPieces(t *testing.T) {
	const text = "POST / HTTP/1.1\r\nX: y\r\nContent-Length: 3\r\n" + "Cookie: c\r\n" + "Transfer-Encoding: chunked\r\n\r\n"
	for size := 1; size <= len(text); size++ {
		var f framing
		for reader := strings.NewReader(text); reader.Len() > 0; {
			piece := make([]byte, size)
			n, _ := io.ReadFull(reader, piece)
			f.read(piece[:n])
		}
		if f.seen.Load() != sawLength|sawEncoding {
			t.Errorf("in pieces of %d bytes it saw %b", size, f.seen.Load())
		}
	}
}

// Of encrypted bytes nothing is known, so each request of unknown length is the last one.
func TestEncryptedRequestsOfUnknownLengthAreTheLast(t *testing.T) {
	files := shelf{}
	files["c"], files["k"] = newPair(t, "x", time.Now().Add(time.Hour))
	certificates, err := ReadCertificates("c", "k", "", files.read)
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, Listener{Handler: echo, RequestTime: bounded, Certificates: certificates}, Options{}, func(b *bubble) {
		secured := tls.Client(b.dial(), &tls.Config{InsecureSkipVerify: true})
		c := &client{secured, b.t, bufio.NewReader(secured)}
		for _, text := range []string{get, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na"} {
			c.send(text)
			if response, _ := c.answer(); response.Close {
				t.Errorf("%q ends the connection", text)
			}
		}
		c.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n" + get)
		if response, body := c.answer(); !response.Close || body != "a" {
			t.Errorf("closed %t, body %q", response.Close, body)
		}
		c.checkLeft(0)
	})
}
