package envoyclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// publishedService is a rate limit service with the published protocol: in each second of the clock a descriptor
// has as many hits as limit.
type publishedService struct {
	rlsv3.UnimplementedRateLimitServiceServer
	limit uint32
	mu    sync.Mutex
	used  map[string]uint32
}

func (s *publishedService) ShouldRateLimit(_ context.Context, r *rlsv3.RateLimitRequest) (
	*rlsv3.RateLimitResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	answer := &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK}
	for _, d := range r.Descriptors {
		hits := max(1, r.HitsAddend)
		if d.HitsAddend != nil {
			hits = uint32(d.HitsAddend.Value)
		}
		key := fmt.Sprint(r.Domain, d.Entries, now.Unix())
		one := &rlsv3.RateLimitResponse_DescriptorStatus{
			Code: rlsv3.RateLimitResponse_OK,
			CurrentLimit: &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: s.limit,
				Unit: rlsv3.RateLimitResponse_RateLimit_SECOND},
			DurationUntilReset: durationpb.New(now.Truncate(time.Second).Add(time.Second).Sub(now)),
		}
		if s.used[key]+hits > s.limit {
			one.Code, answer.OverallCode = rlsv3.RateLimitResponse_OVER_LIMIT, rlsv3.RateLimitResponse_OVER_LIMIT
		} else {
			s.used[key] += hits
		}
		one.LimitRemaining = s.limit - s.used[key]
		answer.Statuses = append(answer.Statuses, one)
	}
	return answer, nil
}

// A load test finds the limit of a service with the published protocol right, and a wrong limit wrong, and its check
// whether the service is there counts nothing.
func TestLoadTestsOfAPublishedService(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service, server := &publishedService{limit: 20, used: map[string]uint32{}}, grpc.NewServer()
	rlsv3.RegisterRateLimitServiceServer(server, service)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	// The wrong limit is far from the right one: a request under way at a border can belong to either window.
	for limit, right := range map[string]bool{"fixed-window:20/1s": true, "fixed-window:10/1s": false} {
		var report struct {
			Runs []struct {
				Denied, Errors int64
				Limits         []struct {
					OverAdmitted int64 `json:"over_admitted"`
				}
			}
		}
		cmd := exec.Command(binary, "loadtest", "grpc://"+listener.Addr().String(), "-o", "json", "--domain", "d",
			"--descriptor", "user={subject}", "--limit", limit, "--keys", "2", "--rate", "100", "--duration", "2s",
			"--cost", "1")
		cmd.Env = []string{"HOME=" + t.TempDir()}
		stdout, _ := cmd.Output() // a wrong limit is an exit code
		if err := json.Unmarshal(stdout, &report); err != nil || len(report.Runs) != 1 {
			t.Fatalf("%v: %s", err, stdout)
		}
		if r := report.Runs[0]; r.Errors > 0 || r.Denied == 0 || (r.Limits[0].OverAdmitted == 0) != right {
			t.Errorf("%s: %+v", limit, r)
		}
	}
	service.mu.Lock()
	defer service.mu.Unlock()
	for key := range service.used {
		if strings.Contains(key, "nobody") && service.used[key] > 0 {
			t.Errorf("%s was charged", key)
		}
	}
}
