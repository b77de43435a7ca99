package serve

import (
	"net/http"
	"sync/atomic"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
)

// Health is what load balancers and people are told about the server.
type Health struct {
	// Parts are what /readyz tells about, besides whether the server drains.
	Parts    []Part
	draining atomic.Bool
}

// Part is a part of the server that /readyz tells about, such as its configuration. A part that
// is not as it should be does not make the server unready: the store is the same for all
// servers, and a policy may decide without it.
type Part struct {
	Name string
	// State returns whether the part is as it should be, and facts about it for JSON.
	State func() (ok bool, facts any)
}

// Draining reports whether the server was told to end.
func (h *Health) Draining() bool { return h.draining.Load() }

// Register adds /healthz and /readyz to what mux answers.
func (h *Health) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		refusal.WriteJSON(w, http.StatusOK, map[string]any{"schema_version": output.SchemaVersion, "alive": true})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { h.ready(w) })
}

// readiness is the document of /readyz.
type readiness struct {
	SchemaVersion int            `json:"schema_version"`
	Ready         bool           `json:"ready"`
	Status        string         `json:"status"` // ready, degraded or draining
	Parts         map[string]any `json:"parts,omitempty"`
}

func (h *Health) ready(w http.ResponseWriter) {
	doc := readiness{SchemaVersion: output.SchemaVersion, Ready: true, Status: "ready", Parts: map[string]any{}}
	for _, part := range h.Parts {
		ok, facts := part.State()
		if !ok {
			doc.Status = "degraded"
		}
		doc.Parts[part.Name] = facts
	}
	status := http.StatusOK
	if h.Draining() {
		doc.Ready, doc.Status, status = false, "draining", http.StatusServiceUnavailable
	}
	refusal.WriteJSON(w, status, doc)
}
