package main

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// dial returns a client of the service, which decides with backend.
func dial(t *testing.T, backend limiter.Store) grpc_health_v1.HealthClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := newServer(backend, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	connection, err := grpc.NewClient(
		listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return grpc_health_v1.NewHealthClient(connection)
}

func as(ctx context.Context, users ...string) context.Context {
	for _, user := range users {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-user", user)
	}
	return ctx
}

func TestAUserIsLimitedByMethod(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	client := dial(t, memorystore.New(memorystore.WithClock(func() time.Time { return now })))
	check := func(ctx context.Context) error {
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err
	}
	for n := range 10 {
		if err := check(as(t.Context(), "ada")); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
	}
	denied := status.Convert(check(as(t.Context(), "ada")))
	if denied.Code() != codes.ResourceExhausted || len(denied.Details()) != 1 {
		t.Fatalf("%v, %v", denied, denied.Details())
	}
	info, ok := denied.Details()[0].(*errdetails.RetryInfo)
	if !ok || info.RetryDelay.AsDuration() != 10*time.Second {
		t.Fatalf("%v", denied.Details())
	}
	if err := check(as(t.Context(), "bob")); err != nil {
		t.Errorf("another user: %v", err)
	}
	stream, err := client.Watch(as(t.Context(), "ada"), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Errorf("another method: %v", err)
	}
	for _, users := range [][]string{nil, {"ada", "bob"}} {
		if err := check(as(t.Context(), users...)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("users %q: %v", users, err)
		}
	}
}

// failing is a store that returns an error.
type failing struct {
	limiter.Store
	err error
}

func (s failing) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return s.err
}

func TestAStoreThatDecidesNothing(t *testing.T) {
	away := dial(t, failing{err: limiter.ErrUnavailable})
	for n := range 3 { // a quarter of ten
		_, err := away.Check(as(t.Context(), "ada"), &grpc_health_v1.HealthCheckRequest{})
		if want := n < 2; (err == nil) != want {
			t.Errorf("call %d while the store is away: %v", n, err)
		}
	}
	refusing := dial(t, failing{err: limiter.ErrRefused})
	_, err := refusing.Check(as(t.Context(), "ada"), &grpc_health_v1.HealthCheckRequest{})
	if got := status.Convert(err); got.Code() != codes.Unavailable || got.Message() != "no decision about limits" {
		t.Errorf("%v", err)
	}
}
