package httplimit

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// giveBackTime bounds the time of giving back, as the client may have left.
const giveBackTime = 5 * time.Second

// count gives back what the store took for a request that does not count: one limit after the other, since each has an
// instant after which the units would be those of others.
func (m *Middleware) count(r *http.Request, o *Outcome, status int) {
	if m.options.CountIf(r, status) {
		return
	}
	ctx, cancel := store.BudgetContext(context.WithoutCancel(r.Context()), giveBackTime)
	defer cancel()
	for i := range o.decisions {
		d, back := &o.decisions[i], o.requests[i]
		byOther := d.DecidedBy == store.DecidedByLocal || d.DecidedBy == store.DecidedByOverride
		if d.Granted == 0 || d.Repeated || byOther { // the store took nothing
			continue
		}
		back.Token, back.TokenTTL = "", 0
		back.NotAfter = d.At + store.Instant(d.ResetAfter/time.Microsecond)
		if limit := d.Override.Apply(back.Limit); limit.CanAdvance() {
			end, _ := limit.Advance(d.At)
			back.NotAfter = min(back.NotAfter, end-1)
		}
		err := m.store.Decide(ctx, store.Refund, []store.Request{back}, make([]store.Decision, 1))
		if err != nil && m.options.OnError != nil {
			m.options.OnError(r, err)
		}
	}
}

// countedWriter calls end once, when the status of the answer is known. All its methods can write the header.
type countedWriter struct {
	http.ResponseWriter
	end func(status int)
}

func (w *countedWriter) known(status int) {
	if end := w.end; end != nil {
		w.end = nil
		end(status)
	}
}

func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *countedWriter) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	if status >= 200 || status == http.StatusSwitchingProtocols { // others are followed by the final one
		w.known(status)
	}
}

func (w *countedWriter) Write(text []byte) (int, error) {
	w.known(http.StatusOK)
	return w.ResponseWriter.Write(text)
}

func (w *countedWriter) Flush() {
	w.known(http.StatusOK)
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *countedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.known(http.StatusSwitchingProtocols)
	}
	return conn, buffered, err
}
