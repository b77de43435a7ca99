package grpc

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// talking serves a dialogue that answers in upper case, "long:" with a long answer, and "bad" with an error.
func talking(t *testing.T, bounds Bounds, prepare ...func(*Server)) (*Server, net.Addr) {
	return start(t, Options{Bounds: bounds, Methods: methods, Dialogues: map[string]Dialogue{
		"/a/Talk": func(request, response []byte) ([]byte, error) {
			switch string(request) {
			case "long":
				return append(response, make([]byte, 10_000)...), nil
			case "bad":
				return nil, &Status{InvalidArgument, "bad"}
			}
			return append(response, strings.ToUpper(string(request))...), nil
		}}}, prepare...)
}

// eventually waits until a server's only connection is in a state.
func eventually(t *testing.T, server *Server, what string, reached func(*conn) bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		for _, c := range server.connections() {
			c.mu.Lock()
			is := reached(c)
			c.mu.Unlock()
			if is {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// Each message of a dialogue is answered as it comes, whatever frames it comes in.
func TestADialogueAnswersEachMessage(t *testing.T) {
	server, address := talking(t, Bounds{})
	c := dial(t, address)
	c.begin(1, "/a/Talk")
	for range 3 {
		c.WriteData(1, false, framed("a"))
		if got := c.told(1); got != prefixed("A") {
			t.Errorf("answered %q", got)
		}
	}
	both := append(framed("b"), framed("cd")...)
	c.WriteData(1, false, both[:9])
	if got := c.told(1); got != prefixed("B") {
		t.Errorf("the first of two is answered %q", got)
	}
	c.WriteData(1, false, both[9:])
	if got := c.told(1); got != prefixed("CD") {
		t.Errorf("the second of two is answered %q", got)
	}
	c.call(3, "/a/Upper", "x")
	if got := c.answerTo(3); got.status != "0" {
		t.Errorf("a call beside it is answered %+v", got)
	}
	c.WriteData(1, true, append(framed("e"), framed("f")...))
	if got := c.answerTo(1); got.message != prefixed("E")+prefixed("F") || got.status != "0" {
		t.Errorf("the last are answered %+v", got)
	}
	c.headers(5, true, ":method", "POST", ":scheme", "http", ":path", "/a/Talk", ":authority", "x", "content-type", "application/grpc")
	if got := c.answerTo(5); got.message != "" || got.status != "0" {
		t.Errorf("a dialogue of no message is answered %+v", got)
	}
	if left := server.buffered.Load(); left != 0 {
		t.Errorf("%d bytes count as held", left)
	}
}

// What a client cannot say in a dialogue ends it, and nothing else.
func TestHostileDialogues(t *testing.T) {
	header := func(n byte) []byte { return []byte{0, 0, 0, n, 0} }
	for _, test := range []struct {
		name  string
		parts [][]byte
		last  bool
		want  answer
	}{
		{"half a message", [][]byte{framed("abc")[:6]}, true, answer{status: "13", text: "the request ends within a message"}},
		{"half a prefix", [][]byte{framed("abc")[:2]}, true, answer{status: "13", text: "the request ends within a message"}},
		{"half a second message", [][]byte{framed("a"), framed("abc")[:6]}, true,
			answer{message: prefixed("A"), status: "13", text: "the request ends within a message"}},
		{"a long message", [][]byte{header(dialogueBytes>>8 + 1)}, false, answer{status: "8", text: "the message is too large"}},
		{"a giant message", [][]byte{{0, 255, 255, 255, 255}}, false, answer{status: "8", text: "the message is too large"}},
		{"a long second message", [][]byte{append(framed("a"), header(dialogueBytes>>8+1)...)}, false,
			answer{message: prefixed("A"), status: "8", text: "the message is too large"}},
		{"a compressed message", [][]byte{{1, 0, 0, 0, 1, 'x'}}, false,
			answer{status: "12", text: "the message is compressed; send it as it is", encodings: "identity"}},
		{"an error", [][]byte{framed("a"), framed("bad"), framed("b")}, false, answer{message: prefixed("A"), status: "3", text: "bad"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, address := talking(t, Bounds{})
			c := dial(t, address)
			c.begin(1, "/a/Talk")
			for i, part := range test.parts {
				c.WriteData(1, test.last && i == len(test.parts)-1, part)
			}
			if got := c.answerTo(1); got != test.want {
				t.Errorf("answered %+v", got)
			}
			c.call(3, "/a/Upper", "x")
			if got := c.answerTo(3); got.status != "0" {
				t.Errorf("a call after it is answered %+v", got)
			}
			eventually(t, server, "something is left", func(c *conn) bool { return c.active == 0 && c.watches == 0 && len(c.streams) == 0 })
			if left := server.buffered.Load(); left != 0 {
				t.Errorf("%d bytes count as held", left)
			}
		})
	}
}

// The longest message is answered, as often as a client likes: the window is given back.
func TestADialogueGivesItsWindowBack(t *testing.T) {
	_, address := talking(t, Bounds{MessageBytes: dialogueBytes})
	c := dial(t, address)
	c.WriteWindowUpdate(0, 1<<20)
	c.begin(1, "/a/Talk")
	given := 0
	for range 10 {
		c.WriteData(1, false, framed(strings.Repeat("m", dialogueBytes)))
		c.WriteWindowUpdate(1, prefixBytes+dialogueBytes)
		for answered := 0; answered < prefixBytes+dialogueBytes || given < answered; {
			frame, err := c.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			switch frame := frame.(type) {
			case *http2.DataFrame:
				answered += len(frame.Data())
			case *http2.WindowUpdateFrame:
				if frame.StreamID == 1 {
					given += int(frame.Increment)
				}
			case *http2.MetaHeadersFrame:
				if frame.StreamEnded() {
					t.Fatalf("it ends with %v", frame.Fields)
				}
			}
		}
		given -= prefixBytes + dialogueBytes
	}
	if given != 0 {
		t.Errorf("%d bytes more than were sent are given back", given)
	}
}

// Who asks much and does not read gets no more.
func TestADialogueIsNotAnsweredAhead(t *testing.T) {
	server, address := talking(t, Bounds{Stall: time.Hour})
	c := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
	c.begin(1, "/a/Talk")
	c.WriteData(1, false, framed("long"))
	c.WriteData(1, false, framed("a"))
	if got := c.answerTo(1); got.status != "8" || got.text != "read the answers before you send more" || len(got.message) != 100 {
		t.Errorf("answered %q: %q and %d bytes", got.status, got.text, len(got.message))
	}
	// A window for all of it does not make the server hold all of it.
	wide := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	wide.WriteWindowUpdate(0, 1<<30)
	wide.begin(1, "/a/Talk")
	wide.WriteData(1, false, []byte(strings.Repeat(prefixed("long"), 1000)))
	if got := wide.answerTo(1); got.status != "8" || len(got.message) > mostAhead+20_000 {
		t.Errorf("answered %q and %d bytes", got.status, len(got.message))
	}
	if left := server.buffered.Load(); left != 0 {
		t.Errorf("%d bytes count as held", left)
	}
}

// A connection may have few dialogues, which do not keep it from being idle.
func TestDialoguesAreFewAndIdle(t *testing.T) {
	states := make(chan http.ConnState, 100)
	_, address := talking(t, Bounds{}, func(server *Server) {
		server.ConnState(func(_ net.Conn, state http.ConnState) { states <- state })
	})
	c := dial(t, address)
	for i := range uint32(mostWatches) {
		c.begin(2*i+1, "/a/Talk")
		if first, second := <-states, <-states; first != http.StateActive || second != http.StateIdle {
			t.Errorf("dialogue %d makes the connection %s, then %s", i+1, first, second)
		}
	}
	c.begin(101, "/a/Talk")
	if got := c.answerTo(101); got.status != "8" || got.text != "the connection has too many calls that last" {
		t.Errorf("one more is answered %+v", got)
	}
	c.WriteRSTStream(1, http2.ErrCodeCancel)
	c.begin(103, "/a/Talk")
	c.WriteData(103, true, framed("a"))
	if got := c.answerTo(103); got.status != "0" {
		t.Errorf("in place of one that was given up: %+v", got)
	}
	c.begin(105, "/a/Talk")
	c.WriteData(105, true, framed("bad"))
	if got := c.answerTo(105); got.status != "3" {
		t.Errorf("in place of one that has ended: %+v", got)
	}
}

// Who says nothing more loses the dialogue, and who does not read the connection.
func TestDialoguesThatStall(t *testing.T) {
	server, address := talking(t, Bounds{Stall: time.Hour, Idle: 100 * time.Hour})
	c := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
	c.begin(1, "/a/Talk")
	c.WriteData(1, false, framed("a"))
	if got := c.told(1); got != prefixed("A") {
		t.Errorf("answered %q", got)
	}
	sweep := func(after time.Duration) {
		for _, each := range server.connections() {
			each.sweep(time.Now().Add(after))
		}
	}
	for _, each := range server.connections() {
		each.mu.Lock()
		each.streams[1].opened = time.Now().Add(-2 * time.Hour) // it began long ago
		each.mu.Unlock()
	}
	c.WriteData(1, false, framed("b"))
	if got := c.told(1); got != prefixed("B") {
		t.Errorf("answered %q", got)
	}
	sweep(0)
	c.WriteData(1, false, framed("c"))
	if got := c.told(1); got != prefixed("C") {
		t.Errorf("a dialogue that goes on is answered %q", got)
	}
	// The client can have an answer before the server knows that it is written.
	eventually(t, server, "an answer is not written", func(c *conn) bool { return c.writing.IsZero() && len(c.out) == 0 })
	sweep(2 * time.Hour)
	if got := c.answerTo(1); got.status != "4" {
		t.Errorf("a dialogue that stalls is answered %+v", got)
	}
	c.begin(3, "/a/Talk")
	c.WriteData(3, true, framed("long"))
	eventually(t, server, "no answer", func(c *conn) bool { return c.streams[3] != nil && c.streams[3].blocked })
	sweep(2 * time.Hour)
	if got := c.answerTo(3); !got.ended {
		t.Errorf("who does not read is answered %+v", got)
	}
}

// An end is not delayed by dialogues, except for what is being read.
func TestADialogueDoesNotKeepAConnectionThatEnds(t *testing.T) {
	server, address := talking(t, Bounds{Stall: time.Hour})
	c := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
	c.begin(1, "/a/Talk")
	c.begin(3, "/a/Talk")
	c.WriteData(3, true, framed("long"))
	eventually(t, server, "no answer", func(c *conn) bool { return c.streams[3] != nil && c.streams[3].blocked })
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		ended <- server.Shutdown(ctx)
	}()
	if got := c.answerTo(1); got.status != "14" || got.text != "the connection ends" {
		t.Errorf("at the end it is told %+v", got)
	}
	c.begin(5, "/a/Talk")
	if got := c.answerTo(5); got.status != "14" {
		t.Errorf("one that begins then is told %+v", got)
	}
	c.WriteWindowUpdate(3, 100_000)
	if got := c.answerTo(3); got.status != "0" || len(got.message) != prefixBytes+10_000-100 {
		t.Errorf("the one that is being read is answered %q and %d bytes", got.status, len(got.message))
	}
	c.conn.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
