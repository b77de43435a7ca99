package serve

import (
	"container/list"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
)

// Gate bounds the number of requests that are answered at the same time. One gate can be before several handlers.
// When it is full, the next request replaces the one whose body is overdue longest: otherwise a few clients that
// announce bodies and do not send them would keep all others out. It is safe for concurrent use.
type Gate struct {
	most     int64
	refused  func()
	inFlight atomic.Int64

	mu      sync.Mutex
	waiting list.List // of *slowBody: the bodies that the server waits for, the longest first
}

// NewGate returns a gate for at most most requests at a time. refused, if not nil, is called for each request that
// it refuses.
func NewGate(most int, refused func()) *Gate { return &Gate{most: int64(most), refused: refused} }

// Enter reports whether a request may be answered. If so, the caller has to call Leave afterwards.
func (g *Gate) Enter() bool {
	if g.inFlight.Add(1) > g.most && !g.giveUp() {
		g.inFlight.Add(-1)
		if g.refused != nil {
			g.refused()
		}
		return false
	}
	return true
}

// Leave ends what Enter began.
func (g *Gate) Leave() { g.inFlight.Add(-1) }

// Wrap answers requests beyond the bound with 503, at once.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.Enter() {
			w.Header().Set("Retry-After", "1")
			refusal.Write(w, outcome.Overloaded.Status, outcome.Overloaded.Word,
				"too many requests in flight; this server answers "+strconv.FormatInt(g.most, 10)+" at a time (--max-in-flight)")
			return
		}
		defer g.Leave()
		if r.Body != nil && r.Body != http.NoBody {
			body := &slowBody{ReadCloser: r.Body, gate: g, control: http.NewResponseController(w)}
			defer g.arrived(body, true)
			r.Body = body
		}
		next.ServeHTTP(w, r)
	})
}

// giveUp drops the request whose body is the longest overdue, and reports whether there is one. Its place is free
// at once.
func (g *Gate) giveUp() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	longest := g.waiting.Front()
	if longest == nil {
		return false
	}
	b := g.waiting.Remove(longest).(*slowBody)
	b.place, b.givenUp = nil, true
	return b.control.SetReadDeadline(time.Unix(1, 0)) == nil
}

// await notes that the server waits for b.
func (g *Gate) await(b *slowBody) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !b.ended && b.place == nil {
		b.place = g.waiting.PushBack(b)
	}
}

// arrived ends what await began, and reports whether b was dropped. ended says that its request has left the gate.
func (g *Gate) arrived(b *slowBody, ended bool) (givenUp bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.place != nil {
		g.waiting.Remove(b.place)
		b.place = nil
	}
	b.ended = b.ended || ended
	return b.givenUp
}

// slowBody is the body of a request that a gate admitted. While the server waits for it, the gate can drop the
// request.
type slowBody struct {
	io.ReadCloser
	gate    *Gate
	control *http.ResponseController

	// The fields below are guarded by the gate's mu.
	place          *list.Element // in the gate's waiting; nil if the server does not wait for it
	ended, givenUp bool
}

// Read implements io.Reader.
func (b *slowBody) Read(p []byte) (n int, err error) {
	b.gate.await(b)
	n, err = b.ReadCloser.Read(p)
	if b.gate.arrived(b, false) {
		return n, errGivenUp{}
	}
	return n, err
}

// errGivenUp is a time-out, as the client sees it.
type errGivenUp struct{}

func (errGivenUp) Error() string {
	return "too many requests are in flight, and this one has waited longest for the rest of its body"
}

// Timeout makes it a time-out for net.Error.
func (errGivenUp) Timeout() bool { return true }
