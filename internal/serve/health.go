package serve

import (
	"net/http"
	"sync/atomic"

	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/serve/refusal"
)

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
