package grpc

import (
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// A client of grpc-go pings about once for each answer, to measure how much it can be sent. That is no flood,
// however many calls it makes.
func TestAPingForEachAnswerIsNoFlood(t *testing.T) {
	_, address := start(t, Options{Methods: methods, Bounds: Bounds{Stall: time.Hour}}) // so that no sweep happens
	c := dial(t, address)
	for i := range uint32(3 * idleFrames) {
		c.call(2*i+1, "/a/Upper", "x")
		c.WritePing(false, [8]byte{})
		if got := c.answerTo(2*i + 1); got.status != "0" {
			t.Fatalf("call %d is answered %+v", i, got)
		}
	}
}

// waiting is a connection with its window closed, and with calls whose answers wait, each with its own window.
func waiting(t *testing.T, windows ...int64) (*conn, []*stream) {
	local, far := net.Pipe()
	t.Cleanup(func() { local.Close(); far.Close() })
	c := newConn(New(Options{Methods: methods}), local)
	c.window = 0
	var all []*stream
	for i, window := range windows {
		s := &stream{id: uint32(2*i + 1), window: window, started: true, wasRead: true, begun: true, unsent: make([]byte, 10)}
		c.streams[s.id] = s
		c.active, c.lastID = c.active+1, s.id
		c.send(s)
		all = append(all, s)
	}
	return c, all
}

// update enlarges the window of one call or of all.
func update(t *testing.T, c *conn, stream, increment uint32) {
	t.Helper()
	frame := &http2.WindowUpdateFrame{FrameHeader: http2.FrameHeader{StreamID: stream}, Increment: increment}
	if err := c.windowUpdate(frame); err != nil {
		t.Fatal(err)
	}
}

// left is how much of each answer still waits.
func left(all []*stream) (n []int) {
	for _, s := range all {
		n = append(n, len(s.unsent))
	}
	return n
}

// The window of the connection goes in turns to the calls that wait for it, and to no more of them than it is
// enough for. So a frame of 13 bytes makes little work, however many calls wait.
func TestAWindowIsGivenInTurns(t *testing.T) {
	c, all := waiting(t, 100, 0, 100, 100)
	for i, want := range [][]int{{9, 10, 10, 10}, {9, 10, 9, 10}, {9, 10, 9, 9}, {8, 10, 9, 9}} {
		if update(t, c, 0, 1); !slices.Equal(left(all), want) {
			t.Fatalf("after %d updates %v are left, not %v", i+1, left(all), want)
		}
	}
	c.reset(all[2])
	c.reset(all[1])
	update(t, c, 0, 100)
	if want := []int{0, 10, 9, 0}; !slices.Equal(left(all), want) || len(c.streams) != 0 || len(c.turns) != 0 {
		t.Errorf("%v are left, not %v, with %d streams and %d turns", left(all), want, len(c.streams), len(c.turns))
	}
}

// A call that waits for its own window costs nothing when the window of the connection, or of another call, grows.
func TestAWindowWakesOnlyWhoWaitsForIt(t *testing.T) {
	c, all := waiting(t, 0, 0, 0)
	for _, s := range all {
		s.window = 5 // each would send if it were checked
	}
	for range 3 {
		update(t, c, 0, 1000)
	}
	if want := []int{10, 10, 10}; !slices.Equal(left(all), want) {
		t.Errorf("a window of the connection leaves %v", left(all))
	}
	update(t, c, all[1].id, 1)
	if want := []int{10, 4, 10}; !slices.Equal(left(all), want) {
		t.Errorf("a window of one call leaves %v", left(all))
	}
}

// A frame can repeat a setting. The last value takes effect, for calls that wait as well, and all of them together are the
// work of one.
func TestTheLastOfEqualSettingsCounts(t *testing.T) {
	window := func(sizes ...uint32) (settings []http2.Setting) {
		for _, size := range sizes {
			settings = append(settings, http2.Setting{ID: http2.SettingInitialWindowSize, Val: size})
		}
		return settings
	}
	_, address := start(t, Options{Methods: methods})
	c := dial(t, address, window(0)...)
	c.call(1, "/a/Upper", "x")
	var many []uint32
	for i := range uint32(frameBytes/6 - 2) {
		many = append(many, i%2)
	}
	c.WriteSettings(window(append(many, 1<<16, 1)...)...)
	message := ""
	for message == "" {
		frame, err := c.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if data, is := frame.(*http2.DataFrame); is {
			message = string(data.Data())
		}
	}
	if message != "\x00" {
		t.Errorf("a window of one byte lets %d through: %q", len(message), message)
	}
	c.WriteSettings(window(1<<31-1, 1<<16)...)
	if got := c.answerTo(1); got.status != "0" || message+got.message != string(framed("X")) {
		t.Errorf("answered %+v", got)
	}
	c.WriteSettings(window(1, 1<<31)...)
	if got := c.answerTo(3); !got.goneAway || got.code != http2.ErrCodeFlowControl {
		t.Errorf("a window that is too large is answered %+v", got)
	}
}
