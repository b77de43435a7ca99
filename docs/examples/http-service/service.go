package main

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
)

// service passes to next the requests that the limits of their user allow.
type service struct {
	limits  *limiter.Limiter
	limited http.Handler

	tenSeconds, hour limiter.Limit
	asked            atomic.Int64 // the number of callers that waited for the store
}

// newService returns a service that decides with backend while it is available.
func newService(store limiter.Store, logf func(format string, args ...any), next http.Handler) (*service, error) {
	s := &service{tenSeconds: limiter.Per("ten-seconds", 10, 10*time.Second),
		hour: limiter.Per("hour", 1000, time.Hour)}
	var err error
	s.limits, err = limiter.New(store,
		// After five calls in a row that failed or took too long, no caller calls the store, and so nobody waits.
		// The breaker checks in the background whether the store is back.
		limiter.Breaker{},
		// Without the store the process decides, with a quarter of each limit: four such processes let through no
		// more than the limits in all.
		limiter.FailLocal(0.25),
		// `limitctl override` and `limitctl block` take effect within a second.
		limiter.Overrides{},
		limiter.Observer{
			OnBreaker: func(c limiter.BreakerChange) {
				if c.Reason != nil {
					logf("breaker %s: %v", c.To, c.Reason)
				} else {
					logf("breaker %s", c.To)
				}
			},
			OnOverrides: func(err error) { logf("overrides: %v", err) }, // nil when they can be read again
			OnStoreCall: func(_ context.Context, call limiter.Call) {
				if call.Operation == "take" {
					s.asked.Add(1)
				}
			},
		})
	if err != nil {
		return nil, err
	}
	limit, err := httplimit.NewFunc(s.limits, s.limitsOf, httplimit.Options{
		Denied: func(w http.ResponseWriter, _ *http.Request, o *httplimit.Outcome) {
			tell(w, o)
			o.WriteDenial(w)
		},
		// The store refused: a mistake of ours, such as a missing right.
		OnError: func(_ *http.Request, err error) { logf("no decision: %v", err) },
	})
	if err != nil {
		return nil, err
	}
	s.limited = limit.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tell(w, httplimit.OutcomeOf(r.Context()))
		next.ServeHTTP(w, r)
	}))
	return s, nil
}

// ServeHTTP accepts requests that name their user. A real service authenticates the user.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-User") == "" {
		http.Error(w, "who are you? send X-User", http.StatusUnauthorized)
		return
	}
	s.limited.ServeHTTP(w, r)
}

// limitsOf returns the limits of a request, whatever its header contains.
func (s *service) limitsOf(r *http.Request) ([]limiter.Request, error) {
	user := r.Header.Get("X-User")
	return []limiter.Request{s.tenSeconds.For("user", user), s.hour.For("user", user)}, nil
}

// tell adds the decider to the answer, to watch an outage.
func tell(w http.ResponseWriter, o *httplimit.Outcome) {
	w.Header().Set("X-Decided-By", o.Decisions().DecidedBy().String())
}
