// Grpc-interceptor is a gRPC service with a limit for each user and method, ten calls in ten seconds, and one for
// all of a user's, a hundred in ten seconds. A call over a limit fails with RESOURCE_EXHAUSTED, and says when to try
// again. It serves the health service of gRPC, in place of your own.
//
//	go run . -listen 127.0.0.1:8081
//	grpcurl -plaintext -H 'x-user: ada' 127.0.0.1:8081 grpc.health.v1.Health/Check
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8081", "where calls come in")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	// A service of several processes uses a redisstore here.
	server, err := newServer(memorystore.New(), log.Printf)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(listener))
}

// A sliding log lets through no more than that in any ten seconds.
var (
	perMethod = limiter.Limit{Name: "method", Count: 10, Period: 10 * time.Second, Algorithm: limiter.SlidingLog}
	perUser   = limiter.Limit{Name: "user", Count: 100, Period: 10 * time.Second, Algorithm: limiter.SlidingLog}
)

// ask returns the requests for a call.
func ask(ctx context.Context, method string) ([]limiter.Request, error) {
	user, err := userOf(ctx)
	if err != nil {
		return nil, err
	}
	return []limiter.Request{
		perMethod.For("user", user, "method", method),
		perUser.For("user", user),
	}, nil
}

func newServer(store limiter.Store, logf func(format string, args ...any)) (*grpc.Server, error) {
	limits, err := limiter.New(store, limiter.FailLocal(0.25))
	if err != nil {
		return nil, err
	}
	i := &interceptor{limits: limits, ask: ask, logf: logf}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(i.unary), grpc.ChainStreamInterceptor(i.stream))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	return server, nil
}
