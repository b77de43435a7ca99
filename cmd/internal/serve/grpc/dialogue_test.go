package grpc

import (
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// Each message of a dialogue is answered as it comes. What a client cannot say ends it, and nothing else.
func TestDialogues(t *testing.T) {
	server, address := start(t, Options{Bounds: Bounds{Stall: time.Hour}, Methods: methods, Dialogues: map[string]Dialogue{
		"/a/Talk": func(request, response []byte) ([]byte, error) {
			if string(request) == "long" {
				return append(response, make([]byte, 10_000)...), nil
			}
			return append(response, strings.ToUpper(string(request))...), nil
		}}})
	c := dial(t, address)
	c.begin(1, "/a/Talk")
	both := append(framed("b"), framed("cd")...)
	c.WriteData(1, false, both[:9])
	if got := c.told(1); got != prefixed("B") {
		t.Errorf("the first of two is answered %q", got)
	}
	c.WriteData(1, false, both[9:])
	if got := c.told(1); got != prefixed("CD") {
		t.Errorf("the second of two is answered %q", got)
	}
	c.WriteData(1, true, append(framed("e"), framed("f")...))
	if got := c.answerTo(1); got.message != prefixed("E")+prefixed("F") || got.status != "0" {
		t.Errorf("the last are answered %+v", got)
	}
	for i, test := range []struct {
		sent []byte
		want answer
	}{
		{framed("abc")[:6], answer{status: "13", text: "the request ends within a message"}},
		{[]byte{0, 0, 0, dialogueBytes>>8 + 1, 0}, answer{status: "8", text: "the message is too large"}},
		{[]byte{1, 0, 0, 0, 1, 'x'}, answer{status: "12", text: "the message is compressed; send it as it is", encodings: "identity"}},
	} {
		stream := uint32(2*i + 3)
		c.begin(stream, "/a/Talk")
		c.WriteData(stream, true, test.sent)
		if got := c.answerTo(stream); got != test.want {
			t.Errorf("%q is answered %+v", test.sent, got)
		}
	}
	// Who asks much and does not read gets no more, however wide its window is.
	wide := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	wide.WriteWindowUpdate(0, 1<<30)
	wide.begin(1, "/a/Talk")
	wide.WriteData(1, false, []byte(strings.Repeat(prefixed("long"), 1000)))
	if got := wide.answerTo(1); got.status != "8" || len(got.message) > mostAhead+20_000 {
		t.Errorf("answered %q and %d bytes", got.status, len(got.message))
	}
	wide.conn.Close()
	// An end is not delayed by dialogues.
	c.begin(9, "/a/Talk")
	c.WriteData(9, false, framed("a"))
	c.told(9)
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		ended <- server.Shutdown(ctx)
	}()
	if got := c.answerTo(9); got.status != "14" || got.text != "the connection ends" {
		t.Errorf("at the end it is told %+v", got)
	}
	c.conn.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
