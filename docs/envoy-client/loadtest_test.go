package envoyclient

import (
	"bytes"
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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// run runs limitctl, and returns its output, its errors and its exit code.
func run(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), complaints.String(), cmd.ProcessState.ExitCode()
}

// loadtest runs a load test of a rate limit service, and returns its report.
func loadtest(t testing.TB, address string, args ...string) (report loadReport, code int) {
	t.Helper()
	stdout, stderr, code := run(t, append([]string{"loadtest", "grpc://" + address, "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Runs) != 1 {
		t.Fatalf("exit %d, %v\n%s\n%s", code, err, stdout, stderr)
	}
	return report, code
}

type loadReport struct {
	Runs []struct {
		Requests, Allowed, Denied, Errors int64
		Limits                            []struct {
			OverAdmitted  int64 `json:"over_admitted"`
			UnderAdmitted int64 `json:"under_admitted"`
		}
	}
}

// Load tests of the rate limit service find limits that limitctl enforces itself right, and wrong limits wrong.
func TestLoadTestsOfTheListenerForEnvoy(t *testing.T) {
	var policies, descriptors strings.Builder
	algorithms := []string{"token-bucket", "fixed-window"}
	for _, algorithm := range algorithms {
		fmt.Fprintf(&policies, "  by-%s:\n    limits: [{name: all, by: [user], limit: \"%[1]s:20/1s\"}]\n", algorithm)
		fmt.Fprintf(&descriptors, "    - {policy: by-%s, entries: {\"generic_key=%[1]s\": \"\", user: user}}\n", algorithm)
	}
	s := serve(t, "policies:\n"+policies.String()+"envoy:\n  edge:\n"+descriptors.String(), "--store", "memory:")
	for _, algorithm := range algorithms {
		for limit, right := range map[string]bool{algorithm + ":20/1s": true, algorithm + ":15/1s": false, algorithm + ":25/1s": false} {
			t.Run(limit, func(t *testing.T) {
				t.Parallel()
				report, _ := loadtest(t, s.addresses["grpc"], "--domain", "edge", "--descriptor", "generic_key="+algorithm+
					",user={subject}",
					"--limit", limit, "--keys", "4", "--rate", "160", "--duration", "2s")
				r := &report.Runs[0]
				audit := r.Limits[0]
				if r.Errors > 0 || r.Allowed == 0 || r.Denied == 0 || (audit.OverAdmitted == 0 && audit.UnderAdmitted == 0) != right {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// publishedService is a rate limit service with the published protocol: in each second of the clock a descriptor
// has as many hits as limit.
type publishedService struct {
	rlsv3.UnimplementedRateLimitServiceServer
	limit uint32
	mu    sync.Mutex
	used  map[string]uint32
	away  bool
}

func (s *publishedService) ShouldRateLimit(_ context.Context, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, status.Error(codes.Unavailable, "the counters are away")
	}
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

// publish serves a rate limit service until the test ends.
func publish(t testing.TB, service *publishedService) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	rlsv3.RegisterRateLimitServiceServer(server, service)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return listener.Addr().String()
}

func TestLoadTestsOfAPublishedService(t *testing.T) {
	t.Parallel()
	service := &publishedService{limit: 20, used: map[string]uint32{}}
	address := publish(t, service)
	// The wrong limits are far from the right one: at a window's border, a request under way can belong to either
	// window, and on a busy machine there can be several.
	for limit, right := range map[string]bool{"fixed-window:20/1s": true, "fixed-window:10/1s": false, "fixed-window:40/1s": false} {
		report, _ := loadtest(t, address, "--domain", "d", "--descriptor", "user={subject}",
			"--limit", limit, "--keys", "2", "--rate", "100", "--duration", "2s", "--cost", "1")
		r := &report.Runs[0]
		audit := r.Limits[0]
		if r.Errors > 0 || r.Denied == 0 || (audit.OverAdmitted == 0 && audit.UnderAdmitted == 0) != right {
			t.Errorf("%s: %+v", limit, r)
		}
	}
	// The check whether the service is there counts nothing.
	service.mu.Lock()
	for key := range service.used {
		if strings.Contains(key, "nobody") && service.used[key] > 0 {
			t.Errorf("%s was charged", key)
		}
	}
	service.away = true
	service.mu.Unlock()
	_, stderr, code := run(t, "loadtest", "grpc://"+address, "--domain", "d", "--descriptor", "user={subject}", "--limit", "20/1s",
		"--rate", "10")
	if code != 3 || !strings.Contains(stderr, "UNAVAILABLE: the counters are away") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
