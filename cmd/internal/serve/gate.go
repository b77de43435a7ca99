package serve

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
)

// Gate bounds the number of requests that are answered at the same time. One gate can be before several handlers.
// When it is full, the next request replaces the one whose body is overdue longest. It is safe for concurrent use.
type Gate struct {
	most     int64
	refused  func()
	inFlight atomic.Int64

	mu     sync.Mutex
	bodies slowBody // the ring of bodies that the server waits for, the longest first after this one
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
