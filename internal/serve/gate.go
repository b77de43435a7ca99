package serve

import (
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/serve/refusal"
)

// Gate bounds the number of requests that are answered at the same time. One gate can be before several handlers. It is safe for
// concurrent use. A request should enter once its body was read, so that slow clients keep no others out.
type Gate struct {
	most     int64
	refused  func()
	inFlight atomic.Int64
}

// NewGate returns a gate for at most most requests at a time. refused, if not nil, is called for each request that
// it refuses.
func NewGate(most int, refused func()) *Gate { return &Gate{most: int64(most), refused: refused} }

// Enter reports whether a request may be answered. If so, the caller has to call Leave afterwards.
func (g *Gate) Enter() bool {
	if g.inFlight.Add(1) <= g.most {
		return true
	}
	g.inFlight.Add(-1)
	if g.refused != nil {
		g.refused()
	}
	return false
}

// Leave ends what Enter began.
func (g *Gate) Leave() { g.inFlight.Add(-1) }

// Admit is Enter for a request over HTTP, which it answers with 503 if it may not enter.
func (g *Gate) Admit(w http.ResponseWriter) bool {
	if g.Enter() {
		return true
	}
	w.Header().Set("Retry-After", "1")
	refusal.Write(w, outcome.Overloaded.Status, outcome.Overloaded.Word,
		"too many requests in flight; this server answers "+strconv.FormatInt(g.most, 10)+" at a time (--max-in-flight)")
	return false
}

// Wrap lets requests to the next handler through the gate.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Admit(w) {
			defer g.Leave()
			next.ServeHTTP(w, r)
		}
	})
}
