package serve

import (
	"io"
	"net/http"
	"time"
)

// slowBody is the body of a request that a gate let in. While it is waited for, the request can be
// given up for another one: else a few clients that announce bodies and do not send them would
// keep all others out.
type slowBody struct {
	io.ReadCloser
	gate    *Gate
	control *http.ResponseController

	// What follows is guarded by the gate's mu.
	before, after  *slowBody // among those that are waited for; nil if it is not
	ended, givenUp bool
}

// errGivenUp is a time-out, since that is what it is to the client.
type errGivenUp struct{}

func (errGivenUp) Error() string {
	return "too many requests are in flight, and this one has waited longest for the rest of its body"
}

// Timeout is as net.Error has it.
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

// await notes that b is waited for.
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

// arrived ends what await began, and reports whether b was given up. ended says that its request
// has left the gate.
func (g *Gate) arrived(b *slowBody, ended bool) (givenUp bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b.leave()
	b.ended = b.ended || ended
	return b.givenUp
}

// leave takes b from those that are waited for.
func (b *slowBody) leave() {
	if b.before != nil {
		b.before.after, b.after.before = b.after, b.before
		b.before, b.after = nil, nil
	}
}

// giveUp gives up the request whose body has been waited for longest, and reports whether there is
// one. Its place is free as soon as it has been told.
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
