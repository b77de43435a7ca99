// Package api is the server's door for programs that speak JSON.
package api

import (
	"encoding/json"
	"net/http"

	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// question is the body of a request.
type question struct {
	Key        string            `json:"key"`
	Limits     []string          `json:"limits"`
	Policy     string            `json:"policy"`
	Attributes policy.Attributes `json:"attributes"`
	Cost       int64             `json:"cost"`
	Token      string            `json:"token"`
}

// Handler answers POST /v1/check and /v1/consume.
func Handler(e *engine.Engine) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/check", func(w http.ResponseWriter, r *http.Request) { answer(e, limiter.Peek, w, r) })
	mux.HandleFunc("POST /v1/consume", func(w http.ResponseWriter, r *http.Request) { answer(e, limiter.Take, w, r) })
	return mux
}

func answer(e *engine.Engine, op limiter.Op, w http.ResponseWriter, r *http.Request) {
	q := question{Cost: 1}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ask := engine.Ask{Op: op, Policy: q.Policy, Attributes: q.Attributes, Key: q.Key, Cost: q.Cost, Token: q.Token}
	for _, text := range q.Limits {
		limit, err := limiter.ParseLimit(text)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ask.Limits = append(ask.Limits, limit)
	}
	var a decision.Answer
	if err := e.Decide(r.Context(), &ask, &a); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	names := make([]string, len(a.Requests))
	for i := range names {
		names[i] = a.LimitName(i)
	}
	e.Settings().HTTP.Headers.Set(w.Header(), names, a.Requests, a.Decisions)
	w.Header().Set("Content-Type", "application/json")
	if !limiter.AllAllowed(a.Decisions) {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	json.NewEncoder(w).Encode(a.Document())
}
