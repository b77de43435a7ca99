package envoyclient

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// connections counts the connections that a client opens.
type connections struct{ begun atomic.Int64 }

func (c *connections) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, is := s.(*stats.ConnBegin); is {
		c.begun.Add(1)
	}
}

func (*connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*connections) HandleRPC(context.Context, stats.RPCStats)                         {}

// The client of grpc-go, which pings after it has read answers, keeps its connection, however busy it is.
func TestABusyClientKeepsItsConnection(t *testing.T) {
	counted := &connections{}
	conn := serve(t, large, "--store", "memory:").connect(grpc.WithStatsHandler(counted))
	for i := range 20_000 {
		if _, err := ask(conn, edge(describe("wide", "x"))); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if n := counted.begun.Load(); n != 1 {
		t.Errorf("the client had to open %d connections", n)
	}
}
