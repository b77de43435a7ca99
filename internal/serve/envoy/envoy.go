// Package envoy is the server's rate limit service for Envoy: the policies of a configuration decide its
// descriptors.
package envoy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/internal/serve"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// service is the name of Envoy's service.
const (
	service = "envoy.service.ratelimit.v3.RateLimitService"
	method  = "ShouldRateLimit"
	// peerService is the name of envoyproxy/ratelimit in health checks, which probes written for it use.
	peerService = "ratelimit"
)

// Options are the parts of the service.
type Options struct {
	// Admits, if set, returns the status with which a call with that authorization is refused. Health checks and
	// reflection need no authorization.
	Admits func(authorization []string) error
	// Reflection: clients may ask for the services and their messages.
	Reflection bool
	// Age is how long a connection may last; 0 means without a bound.
	Age time.Duration
	// Time is the time for a call, from its headers to the end of its answer.
	Time time.Duration
	// Calls is the most calls that one connection can have at once.
	Calls int
	// Gate bounds the calls that are decided at a time; nil means no bound.
	Gate *serve.Gate
	// Describe returns an error of a store for clients: one line without secrets.
	Describe func(error) string
	// OnUnknownDomain, if set, gets the first domain that a configuration does not name.
	OnUnknownDomain func(domain string)
	// OnBug, if set, gets each panic.
	OnBug func(error)
	// OnCall, if set, gets each call that has ended: the path of its method as the client sent it, and the time from
	// the whole request until the answer was there. authorization is its metadata of that name, if Admits is set.
	OnCall func(path string, code codes.Code, took time.Duration, from string, authorization []string)
}

// New returns a server that answers Envoy with the decisions of e.
func New(e *engine.Engine, options Options) *Server {
	l := &listener{engine: e, options: options}
	return newServer(l.answer, options)
}

type listener struct {
	engine  *engine.Engine
	options Options
	last    atomic.Pointer[index]
}

// index returns the index of the settings in force.
func (l *listener) index() *index {
	settings := l.engine.Settings()
	in := l.last.Load()
	if in == nil || in.settings != settings {
		in = newIndex(settings)
		l.last.Store(in)
	}
	return in
}

// answer is ShouldRateLimit.
func (l *listener) answer(ctx context.Context, message []byte) ([]byte, error) {
	r, err := rls.ReadRequest(message)
	switch {
	case err != nil:
		return nil, status.Error(codes.InvalidArgument, err.Error())
	case r.Domain == "":
		return nil, status.Error(codes.InvalidArgument, "the request has no domain")
	case len(r.Descriptors) == 0:
		return nil, status.Error(codes.InvalidArgument, "the request has no descriptors")
	}
	in := l.index()
	if in.domains[r.Domain] == nil && l.options.OnUnknownDomain != nil {
		in.unknown.Do(func() { l.options.OnUnknownDomain(r.Domain) })
	}
	calls, err := callsOf(r, in)
	if err == nil {
		err = l.decide(ctx, calls)
	}
	if err != nil {
		return nil, l.statusOf(ctx, err)
	}
	return calls.appendResponse(make([]byte, 0, 256), len(r.Descriptors), in.settings), nil
}

// decide decides all descriptors that match: first refunds, then peeks, and then, all or nothing, takes. If a peek
// is denied, nothing is taken.
func (l *listener) decide(ctx context.Context, calls calls) error {
	denied := slices.ContainsFunc(calls, func(c *call) bool { return c.denied })
	for _, op := range [...]store.Op{store.Refund, store.Peek, store.Take} {
		group, asks := calls.of(op)
		if len(asks) == 0 {
			continue
		}
		if op == store.Take && denied {
			for i := range asks {
				asks[i].Op = store.Peek
			}
		}
		answers := make([]decision.Answer, len(asks))
		if err := l.engine.DecideAll(ctx, asks, answers); err != nil {
			return err
		}
		for i, call := range group {
			call.answer = answers[i]
			call.denied = op != store.Refund && !store.AllAllowed(answers[i].Decisions)
			denied = denied || call.denied
		}
	}
	for _, call := range calls {
		if call.undecided && call.denied {
			l.engine.Refuse(&call.ask, call.policy)
		}
	}
	return nil
}

// statusOf converts an error for Envoy. Its filter then lets the request pass, unless failure_mode_deny is set.
func (l *listener) statusOf(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the deadline has passed: "+l.options.Describe(err))
	case ctx.Err() != nil:
		return status.Error(codes.Canceled, "the call was given up")
	case errors.Is(err, engine.ErrUnknownPolicy):
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	var code codes.Code
	switch outcome.Of(err, nil).Status {
	case http.StatusBadRequest:
		code = codes.InvalidArgument
	case http.StatusBadGateway:
		code = codes.FailedPrecondition
	case http.StatusServiceUnavailable:
		code = codes.Unavailable
	default:
		return err // a bug, whose text the client does not get
	}
	return status.Error(code, l.options.Describe(err))
}
