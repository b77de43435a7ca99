package main

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// interceptor lets calls through as far as their limits allow.
type interceptor struct {
	limits *limiter.Limiter
	// ask returns the requests for a call of method. Its error is the status of the answer.
	ask  func(ctx context.Context, method string) ([]limiter.Request, error)
	logf func(format string, args ...any)
}

// unary limits calls of one request and one answer.
func (i *interceptor) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (
	any, error) {
	if err := i.take(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// stream limits how often streams are opened. Messages on a stream are not counted.
func (i *interceptor) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	next grpc.StreamHandler) error {
	if err := i.take(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(server, stream)
}

// take charges a call, or returns the status of the answer.
func (i *interceptor) take(ctx context.Context, method string) error {
	requests, err := i.ask(ctx, method)
	if err != nil {
		return err
	}
	d, err := i.limits.Take(ctx, requests...)
	switch {
	case errors.Is(err, limiter.ErrGaveUp):
		return status.FromContextError(ctx.Err()).Err()
	case err != nil: // the text is not for clients
		i.logf("%s: no decision: %v", method, err)
		return status.Error(codes.Unavailable, "no decision about limits")
	case !d.Allowed():
		return denial(d.RetryAfter())
	}
	return nil
}

// denial says when to try again, in the form that gRPC clients know.
func denial(after time.Duration) error {
	denied := status.New(codes.ResourceExhausted, "too many requests")
	detailed, err := denied.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	if err != nil {
		return denied.Err()
	}
	return detailed.Err()
}

// userOf returns the user of a call. In a real service it comes from the authentication.
func userOf(ctx context.Context) (string, error) {
	users := metadata.ValueFromIncomingContext(ctx, "x-user")
	if len(users) != 1 || users[0] == "" {
		return "", status.Error(codes.InvalidArgument, "send x-user once")
	}
	return users[0], nil
}
