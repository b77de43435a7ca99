package serve

import (
	"io"
	"net/http"
	"time"
)

// slowBody is the body of a request that a gate admitted. While the server waits for it, the gate can drop the
// request in favour of another one: otherwise a few clients that announce bodies and do not send them would keep
// all others out.
type slowBody struct {
	io.ReadCloser
	gate    *Gate
	control *http.ResponseController

	// The fields below are guarded by the gate's mu.
	before, after  *slowBody // neighbours among the bodies that the server waits for; nil if this is none
	ended, givenUp bool
}

// errGivenUp is a time-out, as the client sees it.
type errGivenUp struct{}

func (errGivenUp) Error() string {
	return "too many requests are in flight, and this one has waited longest for the rest of its body"
}

// Timeout makes it a time-out for net.Error.
func (errGivenUp) Timeout() bool { return true }

// Read implements io.Reader.
func (b *slowBody) Read(p []byte) (n int, err error) {
	b.gate.await(b)
	n, err = b.ReadCloser.Read(p)
	if b.gate.arrived(b, false) {
		return n, errGivenUp{}
	}
	return n, err
}

// await notes that the server waits for b.
func (g *Gate) await(b *slowBody) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.ended || b.before != nil {
		return
	}
	if g.bodies.after == nil {
		g.bodies.before, g.bodies.after = &g.bodies, &g.bodies
	}
	last := g.bodies.before
	b.before, b.after = last, &g.bodies
	last.after, g.bodies.before = b, b
}

// arrived ends what await began, and reports whether b was dropped. ended says that its request has left the gate.
func (g *Gate) arrived(b *slowBody, ended bool) (givenUp bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b.leave()
	b.ended = b.ended || ended
	return b.givenUp
}

// leave removes b from the bodies that the server waits for.
func (b *slowBody) leave() {
	if b.before != nil {
		b.before.after, b.after.before = b.after, b.before
		b.before, b.after = nil, nil
	}
}

// giveUp drops the request whose body is the longest overdue, and reports whether there is one. Its place is free
// at once.
func (g *Gate) giveUp() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	longest := g.bodies.after
	if longest == nil || longest == &g.bodies {
		return false
	}
	longest.leave()
	longest.givenUp = true
	return longest.control.SetReadDeadline(time.Unix(1, 0)) == nil
}
