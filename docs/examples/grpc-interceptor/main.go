// Grpc-interceptor is a gRPC service with a limit for each user and method: ten calls in ten
// seconds. A call over the limit fails with RESOURCE_EXHAUSTED, and says when to come back. It serves the
// health service of gRPC, as a stand-in for one of your own.
//
//	go run . -listen 127.0.0.1:8081
//	grpcurl -plaintext -H 'x-user: ada' 127.0.0.1:8081 grpc.health.v1.Health/Check
package main

import (
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
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8081", "where calls come in")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	// A service of several processes has a redisstore here.
	log.Fatal(newServer(memorystore.New(), log.Printf).Serve(listener))
}

// calls is how much is allowed. The command can validate and simulate such a policy, if it is
// written in a file and loaded with package policyfile.
func calls() *policy.Policy {
	return &policy.Policy{Name: "calls", OnError: limiter.LocalOnError, Limits: []policy.Limit{{
		Name: "user-method", By: []string{"user", "method"},
		Limit: limiter.Limit{Algorithm: limiter.SlidingLog, Count: 10, Period: 10 * time.Second},
	}}}
}

func newServer(store limiter.Store, logf func(format string, args ...any)) *grpc.Server {
	p := calls()
	limits := &interceptor{policy: p, limits: limiter.New(limiter.WithFailure(store, p.Failure())), logf: logf}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limits.unary), grpc.ChainStreamInterceptor(limits.stream))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	return server
}
