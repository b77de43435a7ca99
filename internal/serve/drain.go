package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/serve/refusal"
	"github.com/limitctl/limitctl/internal/sys"
)

// linger is how long connections without a request are kept when the server stops. A client that uses its
// connection in that time gets its answer, and the hint to use another connection.
const linger = time.Second

// ErrCut says that requests were not answered when the drain was over. The error does not name the signal, since a
// signal is the usual way to end a server.
var ErrCut = outcome.Partly(errors.New("requests were cut"))

// drain ends the listeners so that all requests that were sent are answered.
func drain(ctx context.Context, o *Options, listeners []*opened) error {
	begun := time.Now()
	ctx, cancel := context.WithDeadline(ctx, begun.Add(o.Drain))
	defer cancel()
	sys.Sleep(ctx, o.Delay)
	var cut atomic.Int64
	for _, operators := range []bool{false, true} {
		var group panics.Group
		for _, listener := range listeners {
			if listener.Operators == operators {
				group.Go(func() { cut.Add(int64(listener.drain(ctx, begun.Add(o.Delay+linger)))) })
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	if n := cut.Load(); n > 0 {
		return fmt.Errorf("%w: %d connections still had one after %s; give --drain more time", ErrCut, n, o.Drain)
	}
	o.Log.Info("drained", "after", time.Since(begun).Round(time.Millisecond).String())
	return nil
}

// drain ends a listener, and returns how many connections it had to cut. Those without a request can stay until leave.
// [http.Server.Shutdown] drops requests that are on their way, so it comes last.
func (l *opened) drain(ctx context.Context, leave time.Time) (cut int) {
	l.connections.Close()
	select {
	case <-l.ended:
	case <-ctx.Done():
	}
	open, idle := l.connections.count()
	if l.Server == nil && open > 0 { // others inform their clients themselves
		for idle > 0 && !l.Operators && time.Now().Before(leave) && ctx.Err() == nil {
			sys.Sleep(ctx, lastLook/10)
			_, idle = l.connections.count()
		}
		l.connections.leave()
		sys.Sleep(ctx, 2*lastLook)
	}
	if l.server.Shutdown(ctx) == nil {
		return 0
	}
	cut, _ = l.connections.count()
	l.server.Close()
	return cut
}

// backgroundTime is how long the end waits for the work in the background. A file system may hang, and so may a
// store.
const backgroundTime = time.Second

// background starts the work that runs until ctx ends. The returned function ends it earlier, and waits for it.
func (o *Options) background(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group panics.Group
	for _, run := range o.Background {
		group.Go(func() {
			if err := panics.Call(func() error { run(ctx); return nil }); err != nil {
				o.Log.Error("something in the background has ended", "error", err)
			}
		})
	}
	return func() {
		cancel()
		done := make(chan struct{})
		panics.Go(group.Wait, func(error) { close(done) })
		select {
		case <-done:
		case <-time.After(backgroundTime):
		}
	}
}

// Repeat returns a function for Background that calls refresh every [refreshEvery], and with asked set when hangups
// receives: an operator wants files to be read again. hangups can be nil.
func Repeat[T any](hangups <-chan T, refresh func(ctx context.Context, asked bool)) func(context.Context) {
	return func(ctx context.Context) {
		every := time.NewTicker(refreshEvery)
		defer every.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-hangups:
				refresh(ctx, true)
			case <-every.C:
				refresh(ctx, false)
			}
		}
	}
}

// Health is the state of the server, for load balancers and people.
type Health struct {
	// Components are in /readyz, besides whether the server drains.
	Components []Component
	draining   atomic.Bool
}

// Component is a component of the server in /readyz, such as its configuration. A faulty one does not make the server
// unready: all servers share the store, and a policy can decide without it.
type Component struct {
	Name string
	// State returns whether the component is in order, and facts about it for JSON.
	State func() (ok bool, facts any)
}

// Draining reports whether the server is ending.
func (h *Health) Draining() bool { return h.draining.Load() }

// Handler answers operators: /healthz, /readyz and /metrics.
func (h *Health) Handler(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		refusal.WriteJSON(w, http.StatusOK, map[string]any{"schema_version": output.SchemaVersion, "alive": true})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { h.ready(w) })
	mux.Handle("/metrics", metrics)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refusal.Write(w, http.StatusNotFound, outcome.Usage.Word, "there is nothing at "+r.URL.Path+
			"; there are /metrics, /healthz and /readyz")
	})
	return mux
}

// readiness is the document of /readyz.
type readiness struct {
	SchemaVersion int            `json:"schema_version"`
	Ready         bool           `json:"ready"`           // whether it takes requests
	Status        string         `json:"status"`          // ready, degraded or draining
	Parts         map[string]any `json:"parts,omitempty"` // the state of each part of the server
}

func (h *Health) ready(w http.ResponseWriter) {
	doc := readiness{SchemaVersion: output.SchemaVersion, Ready: true, Status: "ready", Parts: map[string]any{}}
	for _, component := range h.Components {
		ok, facts := component.State()
		if !ok {
			doc.Status = "degraded"
		}
		doc.Parts[component.Name] = facts
	}
	status := http.StatusOK
	if h.Draining() {
		doc.Ready, doc.Status, status = false, "draining", http.StatusServiceUnavailable
	}
	refusal.WriteJSON(w, status, doc)
}
