package envoyclient

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/limitctl/limitctl/cmd/envoy-client/floods"
)

// rate is the bytes a second of an attacker.
const rate = 200_000

// Whatever attackers send, an honest client of grpc-go gets each of its answers, over one connection.
func TestFloodsDoNotReachHonestClients(t *testing.T) {
	s := serve(t, large, "--store", "memory:")
	for i := range floods.All {
		flood := &floods.All[i]
		t.Run(flood.Name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer all.Wait()
			defer stop()
			for range 4 {
				all.Go(func() { flood.Run(ctx, s.addresses["grpc"], rate) })
			}
			counted := &connections{}
			conn := s.connect(grpc.WithStatsHandler(counted))
			for i := range 200 {
				if _, err := ask(conn, edge(describe("wide", "x"))); err != nil {
					t.Fatalf("call %d: %v", i, err)
				}
			}
			if n := counted.begun.Load(); n != 1 {
				t.Errorf("the client had to open %d connections", n)
			}
		})
	}
}
