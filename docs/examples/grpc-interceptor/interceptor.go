package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// interceptor lets calls through as far as a policy allows. The attributes of a call are
// ip, method and user, of which the policy uses some.
type interceptor struct {
	policy  *policy.Policy
	limits  *limiter.Limiter
	clients httplimit.Clients // which proxies are believed
	logf    func(format string, args ...any)
}

// unary limits calls of one request and one answer.
func (i *interceptor) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := i.take(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// stream limits how often streams are opened. What is sent on one is not counted.
func (i *interceptor) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := i.take(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(server, stream)
}

// take charges a call, or returns the status that it is answered with.
func (i *interceptor) take(ctx context.Context, method string) error {
	reqs, err := i.policy.Requests(i.attributes(ctx, method), 1)
	if err != nil { // an attribute that a limit needs is missing
		return status.Error(codes.InvalidArgument, err.Error())
	}
	decisions, err := i.limits.TakeAll(ctx, reqs...)
	switch {
	case errors.Is(err, limiter.ErrGaveUp):
		return status.FromContextError(ctx.Err()).Err()
	case err != nil: // its text is not for clients
		i.logf("%s: no decision: %v", method, err)
		return status.Error(codes.Unavailable, "no decision about limits")
	}
	sum := limiter.Summarize(decisions)
	if sum.Allowed {
		return nil
	}
	return denial(sum.RetryAfter)
}

// denial says when to come back, in the way that gRPC clients know.
func denial(after time.Duration) error {
	denied := status.New(codes.ResourceExhausted, "too many requests")
	if after == 0 { // nothing is known of it, as the store is away
		return denied.Err()
	}
	detailed, err := denied.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	if err != nil {
		return denied.Err()
	}
	return detailed.Err()
}

// attributes are what is known of a call. CheckAttributes of a policy refuses those that it does not use.
func (i *interceptor) attributes(ctx context.Context, method string) policy.Attributes {
	known := policy.Attributes{"method": method}
	if from, ok := peer.FromContext(ctx); ok {
		// Metadata are fields of a request, so who is believed is the same as with HTTP.
		r := &http.Request{RemoteAddr: from.Addr.String(), Header: http.Header{
			httplimit.XForwardedFor: metadata.ValueFromIncomingContext(ctx, "x-forwarded-for"),
		}}
		known["ip"] = i.clients.Of(r)
	}
	if users := metadata.ValueFromIncomingContext(ctx, "x-user"); len(users) == 1 {
		known["user"] = users[0]
	}
	names, _ := i.policy.Attributes()
	used := policy.Attributes{}
	for _, name := range names {
		if known[name] != "" {
			used[name] = known[name]
		}
	}
	return used
}
