package envoyclient

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/limitctl/limitctl/internal/redistest"
)

// large has one limit per policy that does not leak during a test.
const large = `
policies:
  tenant:
    limits: [{name: all, by: [tenant], limit: "1000/366d"}]
  closed:
    on_error: deny
    limits: [{name: all, by: [tenant], limit: "1000/366d"}]
  open:
    on_error: allow
    limits: [{name: all, by: [tenant], limit: "1000/366d"}]
  wide:
    limits: [{name: all, by: [tenant], limit: "fixed-window:1000000000/366d"}]
envoy:
  edge:
    - {policy: wide, entries: {wide: tenant}}
    - {policy: tenant, entries: {tenant: tenant}}
    - {policy: closed, entries: {closed: tenant}}
    - {policy: open, entries: {open: tenant}}
`

func TestAStalledStore(t *testing.T) {
	redis := redistest.Start(t)
	conn := serve(t, large, "--store", "redis://"+redis.Addr, "--timeout", "2s").connect() // enough for a busy machine
	for _, key := range []string{"tenant", "closed", "open"} {
		if got := summary(ask(conn, edge(describe(key, "a")))); got[:2] != "OK" {
			t.Fatal(got)
		}
	}
	redis.Pause()
	defer redis.Resume()
	var group sync.WaitGroup
	for name, want := range map[string]struct {
		request *rlsv3.RateLimitRequest
		code    codes.Code
		overall rlsv3.RateLimitResponse_Code
	}{
		"no policy for that": {edge(describe("tenant", "a")), codes.Unavailable, 0},
		"deny":               {edge(describe("closed", "a")), codes.OK, rlsv3.RateLimitResponse_OVER_LIMIT},
		"allow":              {edge(describe("open", "a")), codes.OK, rlsv3.RateLimitResponse_OK},
		"the strictest of both": {edge(describe("open", "a"), describe("closed", "a")), codes.OK,
			rlsv3.RateLimitResponse_OVER_LIMIT},
	} {
		group.Go(func() {
			answer, err := ask(conn, want.request)
			if status.Code(err) != want.code || err == nil && answer.OverallCode != want.overall {
				t.Errorf("%s: %v, %v", name, answer, err)
			}
		})
	}
	group.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, edge(describe("open", "a")))
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("after Envoy's own deadline: %v", err)
	}
}

// A server that ends under load answers all that it has charged: each unit is reported to a client.
func TestADrainLosesNoCall(t *testing.T) {
	redis := redistest.Start(t)
	first := serve(t, large, "--store", "redis://"+redis.Addr, "--timeout", "20s", "--drain", "60s")
	second := serve(t, large, "--store", "redis://"+redis.Addr, "--timeout", "20s")
	var calls, allowed atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		conn := first.connect()
		for range 4 {
			group.Go(func() {
				for {
					answer, err := ask(conn, edge(describe("wide", "a")))
					if err != nil {
						// A call that was not sent is not lost.
						if status.Code(err) != codes.Unavailable {
							t.Error(err)
						}
						return
					}
					if answer.OverallCode == rlsv3.RateLimitResponse_OK {
						allowed.Add(1)
					}
					calls.Add(1)
				}
			})
		}
	}
	for calls.Load() < 50 {
		time.Sleep(time.Millisecond)
	}
	redis.Pause() // so that calls are under way
	ended := make(chan error, 1)
	go func() { ended <- first.stop() }()
	time.AfterFunc(200*time.Millisecond, redis.Resume)
	if err := <-ended; err != nil {
		t.Errorf("limitctl ends with %v:\n%s", err, &first.stderr)
	}
	group.Wait()
	answer, err := ask(second.connect(), edge(with(describe("wide", "a"), 0)))
	if err != nil {
		t.Fatal(err)
	}
	if charged := 1_000_000_000 - int64(answer.Statuses[0].LimitRemaining); charged != allowed.Load() {
		t.Errorf("%d units were charged, and %d calls were told so", charged, allowed.Load())
	}
}
