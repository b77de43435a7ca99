// Package envoy is the server's rate limit service for Envoy: the policies of a configuration decide its
// descriptors.
package envoy

import (
	"context"
	_ "embed"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/cmd/internal/serve/grpc"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// service is the name of Envoy's service, and shouldRateLimit the path of its method.
const (
	service         = "envoy.service.ratelimit.v3.RateLimitService"
	shouldRateLimit = "/" + service + "/ShouldRateLimit"
	// peerService is the name of envoyproxy/ratelimit in health checks, which probes written for it use.
	peerService = "ratelimit"
)

// descriptors is the FileDescriptorSet of the services: the published descriptors, with what they need and nothing else. The
// tests with Envoy's client, in docs/envoy-client, write and compare it.
//
//go:embed reflection.pb
var descriptors []byte

// Options are the parts of the service.
type Options struct {
	// Ready reports whether the server is healthy; nil means always.
	Ready func() bool
	// Admits, if set, says why a call with that authorization is refused, "" if it is not, and whether it only came too
	// soon. Health checks and reflection need no authorization.
	Admits func(authorization []string) (refusal string, tooSoon bool)
	// Reflection: clients may ask for the services and their messages.
	Reflection bool
	// Age is how long a connection may last; 0 means without a bound.
	Age time.Duration
	// Gate bounds the calls that are decided at a time; nil means no bound.
	Gate grpc.Gate
	// Describe returns an error of a store for clients: one line without secrets.
	Describe func(error) string
	// OnUnknownDomain, if set, gets each domain that no configuration names.
	OnUnknownDomain func(domain string)
	// OnBug, if set, gets each panic.
	OnBug func(error)
	// OnEnd, if set, gets the gRPC code of each call.
	OnEnd func(code uint8)
}

// New returns a server that answers Envoy with the decisions of e.
func New(e *engine.Engine, options Options) *grpc.Server {
	if options.Ready == nil {
		options.Ready = func() bool { return true }
	}
	l := &listener{engine: e, options: options}
	onEnd := func(grpc.Code) {}
	if options.OnEnd != nil {
		onEnd = func(code grpc.Code) { options.OnEnd(uint8(code)) }
	}
	var admits func(authorization []string) *grpc.Status
	if options.Admits != nil {
		admits = func(authorization []string) *grpc.Status {
			switch refusal, tooSoon := options.Admits(authorization); {
			case refusal == "":
				return nil
			case tooSoon:
				return &grpc.Status{Code: grpc.ResourceExhausted, Message: refusal}
			default:
				return &grpc.Status{Code: grpc.Unauthenticated, Message: refusal}
			}
		}
	}
	check, watch := grpc.Health(options.Ready, service, peerService)
	open := map[string]bool{grpc.HealthCheck: true, grpc.HealthWatch: true}
	dialogues := map[string]grpc.Dialogue{}
	if options.Reflection {
		reflection := grpc.Reflection(descriptors)
		for _, path := range []string{grpc.ReflectionV1, grpc.ReflectionV1Alpha} {
			dialogues[path], open[path] = reflection, true
		}
	}
	return grpc.New(grpc.Options{
		Methods:   map[string]grpc.Method{shouldRateLimit: l.answer, grpc.HealthCheck: check},
		Watches:   map[string]grpc.Watch{grpc.HealthWatch: watch},
		Dialogues: dialogues,
		Bounds:    grpc.Bounds{Age: options.Age},
		Admits:    admits,
		Open:      open,
		Gate:      options.Gate,
		OnBug:     options.OnBug,
		OnEnd:     onEnd,
	})
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
func (l *listener) answer(ctx context.Context, message, response []byte) ([]byte, error) {
	r, err := rls.ReadRequest(message)
	switch {
	case err != nil:
		return nil, &grpc.Status{Code: grpc.InvalidArgument, Message: err.Error()}
	case r.Domain == "":
		return nil, &grpc.Status{Code: grpc.InvalidArgument, Message: "the request has no domain"}
	case len(r.Descriptors) == 0:
		return nil, &grpc.Status{Code: grpc.InvalidArgument, Message: "the request has no descriptors"}
	}
	in := l.index()
	if in.domains[r.Domain] == nil && l.options.OnUnknownDomain != nil {
		l.options.OnUnknownDomain(r.Domain)
	}
	calls, err := callsOf(r, in)
	if err == nil {
		err = l.decide(ctx, calls)
	}
	if err != nil {
		return nil, l.statusOf(ctx, err)
	}
	return calls.appendResponse(response, len(r.Descriptors), in.settings), nil
}

// decide decides all descriptors that match: first refunds, then peeks, and then, all or nothing, takes. If a peek
// is denied, nothing is taken.
func (l *listener) decide(ctx context.Context, calls calls) error {
	denied := slices.ContainsFunc(calls, func(c *call) bool { return c.denied })
	for _, op := range [...]store.Op{store.Refund, store.Peek, store.Take} {
		group := calls.of(op)
		if len(group.asks) == 0 {
			continue
		}
		if op == store.Take && denied {
			for i := range group.asks {
				group.asks[i].Op = store.Peek
			}
		}
		answers := make([]decision.Answer, len(group.asks))
		err := l.engine.DecideAll(ctx, group.asks, answers)
		if err != nil && !errors.Is(err, store.ErrNeverFits) {
			return err
		}
		for i := range answers {
			call := group.calls[i]
			call.answer = answers[i]
			call.undecided = err != nil
			call.denied = err == nil && op != store.Refund && !store.AllAllowed(answers[i].Decisions)
		}
		if err != nil {
			markNeverFits(group.calls)
			l.look(ctx, group)
		}
		for _, call := range group.calls {
			denied = denied || call.denied
		}
	}
	return nil
}

// look fills in what remains of the limits of a group that was not decided, if the store answers.
func (l *listener) look(ctx context.Context, group group) {
	for i := range group.asks {
		group.asks[i].Op, group.asks[i].Cost = store.Peek, 1
		for j := range group.asks[i].Costs {
			group.asks[i].Costs[j].Units = 1
		}
	}
	answers := make([]decision.Answer, len(group.asks))
	if l.engine.DecideAll(ctx, group.asks, answers) != nil {
		return // it is a denial in any case
	}
	for i, call := range group.calls {
		call.answer, call.undecided = answers[i], false
		for j := range answers[i].Decisions {
			answers[i].Decisions[j].RetryAfter = 0 // it is for one unit
		}
	}
}

// markNeverFits marks the calls that cost more than a limit ever allows. For Envoy that is a denial, because an
// error would let the request pass.
func markNeverFits(group []*call) {
	found := false
	for _, call := range group {
		for i := range call.answer.Requests {
			r := &call.answer.Requests[i]
			if limit := r.Limit; !r.Shadow && r.Cost > max(limit.Burst, limit.Count) {
				call.denied, found = true, true
			}
		}
	}
	if !found { // only their sum is too much
		for _, call := range group {
			call.denied = true
		}
	}
}

// statusOf converts an error for Envoy. Its filter then lets the request pass, unless failure_mode_deny is set.
func (l *listener) statusOf(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &grpc.Status{Code: grpc.DeadlineExceeded, Message: "the deadline has passed: " + l.options.Describe(err)}
	case ctx.Err() != nil:
		return &grpc.Status{Code: grpc.Canceled, Message: "the call was given up"}
	case errors.Is(err, engine.ErrUnknownPolicy):
		return &grpc.Status{Code: grpc.FailedPrecondition, Message: err.Error()}
	}
	var code grpc.Code
	switch outcome.Of(err, nil).Status {
	case http.StatusBadRequest:
		code = grpc.InvalidArgument
	case http.StatusBadGateway:
		code = grpc.FailedPrecondition
	case http.StatusServiceUnavailable:
		code = grpc.Unavailable
	default:
		return err // a bug, whose text the client does not get
	}
	return &grpc.Status{Code: code, Message: l.options.Describe(err)}
}

// appendHeaders appends the fields about the client's limits, in the order of their names, so that equal answers
// are equal bytes.
func appendHeaders(response []byte, header http.Header) []byte {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			response = rls.AppendHeader(response, strings.ToLower(name), value)
		}
	}
	return response
}

// longestSeldom is the most names that Seldom keeps.
const longestSeldom = 100

// longestName is the most bytes of a name that it compares.
const longestName = 200

// Seldom returns a function that calls tell once for each name, and for at most 100 names, whatever clients send.
// It compares the first 200 bytes of a name. It is safe for concurrent use.
func Seldom(tell func(name string)) func(name string) {
	var mu sync.Mutex
	seen := map[string]bool{}
	return func(name string) {
		name = strings.Clone(name[:min(len(name), longestName)]) // a copy does not keep the request in memory
		mu.Lock()
		first := !seen[name] && len(seen) < longestSeldom
		if first {
			seen[name] = true
		}
		mu.Unlock()
		if first {
			tell(name)
		}
	}
}
