package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// service lets through to next what the limits of its user allow.
type service struct {
	limits *limiter.Limiter
	next   http.Handler
	logf   func(format string, args ...any)

	tenSeconds, hour limiter.Limit
}

// newService returns a service that decides by store for as long as that is there.
func newService(store limiter.Store, logf func(format string, args ...any), next http.Handler) *service {
	// After five calls in a row that failed or took too long, nothing is asked any more,
	// and so nobody waits. The breaker asks by itself whether the store is back.
	guarded := limiter.WithBreaker(store, limiter.Breaker{
		OnChange: func(c limiter.BreakerChange) {
			if c.Reason != nil {
				logf("breaker %s: %v", c.To, c.Reason)
			} else {
				logf("breaker %s", c.To)
			}
		},
	})
	// What the store cannot decide is decided here, with a quarter of each limit: four
	// such processes let through no more than the limits in all.
	soft := limiter.WithFailure(guarded, limiter.Failure{Policy: limiter.LocalOnError, Share: limiter.DefaultShare})
	// What an operator says with `limitctl override` or `limitctl block` applies within a second.
	overridden := limiter.WithOverrides(soft, limiter.Overrides{OnError: func(err error) { logf("%v", err) }})
	return &service{
		limits: limiter.New(overridden), next: next, logf: logf,
		tenSeconds: limiter.Limit{Count: 10, Period: 10 * time.Second}, hour: limiter.Limit{Count: 1000, Period: time.Hour},
	}
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := r.Header.Get("X-User")
	if user == "" {
		http.Error(w, "who are you? send X-User", http.StatusUnauthorized)
		return
	}
	key := limiter.Key{Subject: limiter.Subject("user", user)} // whatever the header holds
	decisions, err := s.limits.TakeAll(r.Context(),
		limiter.Request{Key: key, Limit: s.tenSeconds, Cost: 1},
		limiter.Request{Key: key, Limit: s.hour, Cost: 1})
	switch {
	case errors.Is(err, context.Canceled): // the client has left
		return
	case err != nil: // the store refused: a mistake of ours, such as a missing right
		s.logf("no decision: %v", err)
		http.Error(w, "no decision", http.StatusInternalServerError)
		return
	}
	w.Header().Set("X-Decided-By", decisions[0].DecidedBy.String())
	sum := limiter.Summarize(decisions)
	if !sum.Allowed {
		seconds := int64((sum.RetryAfter + time.Second - 1) / time.Second) // never earlier than the truth
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return
	}
	s.next.ServeHTTP(w, r)
}
