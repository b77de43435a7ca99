package endpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The types of HTTP/2 frames that the tests send.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway, frameContinuation = 0, 1, 3, 4, 6, 7, 9
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

func TestHostileHTTP2ServersEndInErrorsThatCanBeCounted(t *testing.T) {
	const short, ample = 300 * time.Millisecond, time.Minute
	// 0x88 is the header ":status: 200".
	asked := func(then func(net.Conn)) func(net.Conn) {
		return func(conn net.Conn) {
			io.WriteString(conn, frame(frameSettings, 0, 0, ""))
			if untilHeaders(conn) {
				then(conn)
			}
		}
	}
	says := func(text string) func(net.Conn) {
		return asked(func(conn net.Conn) { io.WriteString(conn, text); hang(conn) })
	}
	goAway := func(last uint32, code uint32) string {
		return frame(frameGoAway, 0, 0, string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code)))
	}
	for _, test := range []struct {
		name    string
		serve   func(net.Conn)
		timeout time.Duration
		want    string // one of several, with | between
	}{
		{"hangs", says(""), short, "no answer in time"},
		{"closes", asked(func(net.Conn) {}), ample, "the server closed the connection without an answer|" + errHTTP2.Error()},
		{"goes away after the request", asked(func(conn net.Conn) { io.WriteString(conn, goAway(1, 2)) }), ample,
			"the server closed the connection without an answer|" + errHTTP2GoAway.Error()},
		{"goes away each time", asked(func(conn net.Conn) { io.WriteString(conn, goAway(0, 0)) }), short,
			"no answer in time"}, // it tries again with a server that says it did not process the request
		{"resets the stream", says(frame(frameReset, 0, 1, "\x00\x00\x00\x02")), ample, errHTTP2Refused.Error()},
		{"resets after the headers", says(frame(frameHeaders, 4, 1, "\x88") + frame(frameReset, 0, 1, "\x00\x00\x00\x02")), ample,
			errHTTP2Refused.Error()},
		{"a body that hangs", says(frame(frameHeaders, 4, 1, "\x88") + frame(frameData, 0, 1, "abc")), short,
			"the answer's body did not end in time"},
		{"headers without an end", asked(func(conn net.Conn) {
			io.WriteString(conn, frame(frameHeaders, 0, 1, "\x88"))
			endless(conn, frame(frameContinuation, 0, 1, strings.Repeat("\x00\x01a\x01b", 1000)))
		}), ample, errLongHead.Error() + "|" + errHTTP2.Error()},
		{"pings without an end", asked(func(conn net.Conn) {
			go endless(conn, frame(framePing, 0, 0, "12345678"))
			hang(conn)
		}), short, "no answer in time"},
		{"noise", func(conn net.Conn) { io.WriteString(conn, "+OK\r\n+OK\r\n+OK\r\n+OK\r\n"); hang(conn) }, ample, errHTTP2.Error()},
		{"HTTP/1.1", func(conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
			hang(conn)
		}, ample,
			errHTTP2.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var answer Answer
			wanted := func(err error) bool { return slices.Contains(strings.Split(test.want, "|"), err.Error()) }
			err := patiently(t, test.timeout, wanted, func(ctx context.Context) error {
				client := newClient(t, HTTPOptions{URL: "http://" + listen(t, test.serve) + "/{subject}", HTTP2: true})
				return client.Send(ctx, "user:1", 1, &answer)
			})
			if err == nil {
				t.Fatalf("an answer of status %d", answer.Status)
			}
			if !wanted(err) || !errors.Is(err, store.ErrOutcomeUnknown) {
				t.Errorf("error %q (%#v), want %q", err, errors.Unwrap(err), test.want)
			}
		})
	}
}
