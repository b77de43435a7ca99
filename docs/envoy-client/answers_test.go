// Package envoyclient tests limitctl's rate limit service with Envoy's own published protocol.
package envoyclient

import (
	"context"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// The periods are long, so that no unit comes back during a test.
const configuration = `
policies:
  login:
    limits:
      - {name: ip, by: [ip], limit: 3/1h}
      - {name: route, by: [route], limit: 100/1d}
  tenant:
    on_error: deny
    limits:
      - {name: all, by: [tenant], limit: 5/1h}
  burst:
    limits:
      - {name: all, by: [tenant], limit: "10/90m,burst=20"}
  tried:
    limits:
      - {name: all, by: [tenant], limit: 1/1h, shadow: true}
envoy:
  edge:
    - {policy: login, entries: {remote_address: ip, path: route}}
    - {policy: tenant, entries: {tenant: tenant}}
    - {policy: burst, entries: {"generic_key=burst": "", tenant: tenant}}
    - {policy: tried, entries: {"generic_key=tried": "", tenant: tenant}}
`

// describe makes a descriptor from keys and values.
func describe(keysAndValues ...string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for i := 0; i < len(keysAndValues); i += 2 {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{
			Key: keysAndValues[i], Value: keysAndValues[i+1]})
	}
	return d
}

func edge(descriptors ...*common.RateLimitDescriptor) *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{Domain: "edge", Descriptors: descriptors}
}

func TestEnvoysClientIsAnswered(t *testing.T) {
	conn := serve(t, configuration, "--store", "memory:").connect()
	for i := range 4 {
		answer, err := ask(conn, edge(describe("remote_address", "203.0.113.9", "path", "/login"),
			describe("other", "x")))
		if err != nil {
			t.Fatal(err)
		}
		want := rlsv3.RateLimitResponse_OK
		if i == 3 {
			want = rlsv3.RateLimitResponse_OVER_LIMIT
		}
		if answer.OverallCode != want || len(answer.Statuses) != 2 || answer.Statuses[0].Code != want ||
			answer.Statuses[1].Code != rlsv3.RateLimitResponse_OK || answer.Statuses[1].CurrentLimit != nil {
			t.Errorf("call %d is answered %v", i+1, answer)
		}
		limit := answer.Statuses[0].CurrentLimit
		if limit.GetName() != "login/ip" || limit.GetRequestsPerUnit() != 3 ||
			limit.GetUnit() != rlsv3.RateLimitResponse_RateLimit_HOUR ||
			answer.Statuses[0].LimitRemaining != uint32(max(0, 2-i)) ||
			!isAbout(answer.Statuses[0].DurationUntilReset.GetSeconds(), []int64{1200, 2400, 3600, 1200}[i]) {
			t.Errorf("call %d is told of %v", i+1, answer.Statuses[0])
		}
		headers := map[string]string{}
		for _, header := range answer.ResponseHeadersToAdd {
			headers[header.Key] = header.Value
		}
		if headers["ratelimit-policy"] != `"login/ip";q=3;w=3600,"login/route";q=100;w=86400` ||
			(headers["retry-after"] != "") != (i == 3) {
			t.Errorf("call %d has headers %v", i+1, headers)
		}
	}
	for _, service := range []string{"", "envoy.service.ratelimit.v3.RateLimitService", "ratelimit"} {
		health, err := healthv1.NewHealthClient(conn).Check(context.Background(), &healthv1.HealthCheckRequest{
			Service: service})
		if err != nil || health.Status != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q is %v, %v", service, health, err)
		}
	}
}

// isAbout reports whether seconds were want when the server decided, however slow the machine is.
func isAbout(seconds, want int64) bool { return seconds <= want && seconds > want-300 }
