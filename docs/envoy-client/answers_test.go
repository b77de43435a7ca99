// Package envoyclient tests limitctl's rate limit service with Envoy's own published protocol.
package envoyclient

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/limitctl/limitctl/internal/redistest"
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
		must(t, err)
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

// with returns d with that many hits, a refund if negative.
func with(d *common.RateLimitDescriptor, hits int64) *common.RateLimitDescriptor {
	d.IsNegativeHits = hits < 0
	d.HitsAddend = wrapperspb.UInt64(uint64(max(hits, -hits)))
	return d
}

// limited returns d with Envoy's own limit.
func limited(d *common.RateLimitDescriptor, requests uint32, unit typev3.RateLimitUnit) *common.RateLimitDescriptor {
	d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: requests, Unit: unit}
	return d
}

// summary is an answer in short: the overall code, and for each descriptor its code, the remaining units and the
// limit.
func summary(answer *rlsv3.RateLimitResponse, err error) string {
	if err != nil {
		return fmt.Sprintf("%s: %s", status.Code(err), status.Convert(err).Message())
	}
	text := answer.OverallCode.String()
	for _, s := range answer.Statuses {
		text += ", " + s.Code.String()
		if l := s.CurrentLimit; l != nil {
			text += fmt.Sprintf(" %d of %s %d/%s", s.LimitRemaining, l.Name, l.RequestsPerUnit, l.Unit)
		}
	}
	return text
}

func TestSemantics(t *testing.T) {
	conn := serve(t, configuration, "--store", "memory:").connect()
	tenant := func(name string) *common.RateLimitDescriptor { return describe("tenant", name) }
	tried := func(name string) *common.RateLimitDescriptor { return describe("generic_key", "tried", "tenant", name) }
	for _, test := range []struct {
		name     string
		requests []*rlsv3.RateLimitRequest
		want     string // of the last
	}{
		{"an unknown domain",
			[]*rlsv3.RateLimitRequest{{Domain: "else", Descriptors: []*common.RateLimitDescriptor{tenant("a")}}},
			"OK, OK"},
		{"a fixed value, and a period that has no unit",
			[]*rlsv3.RateLimitRequest{edge(describe("tenant", "f", "generic_key", "burst"))},
			"OK, OK 19 of burst/all 10/UNKNOWN"},
		{"no domain",
			[]*rlsv3.RateLimitRequest{{Descriptors: []*common.RateLimitDescriptor{tenant("a")}}},
			"InvalidArgument: the request has no domain"},
		{"no descriptors", []*rlsv3.RateLimitRequest{edge()}, "InvalidArgument: the request has no descriptors"},
		{"hits of a descriptor go first", []*rlsv3.RateLimitRequest{{Domain: "edge", HitsAddend: 4,
			Descriptors: []*common.RateLimitDescriptor{with(tenant("i"), 2), tenant("j")}}},
			"OK, OK 3 of tenant/all 5/HOUR, OK 1 of tenant/all 5/HOUR"},
		{"no hits only ask",
			[]*rlsv3.RateLimitRequest{edge(with(tenant("k"), 0)), edge(with(tenant("k"), 0))},
			"OK, OK 5 of tenant/all 5/HOUR"},
		{"no hits are denied when nothing is left", []*rlsv3.RateLimitRequest{
			edge(with(tenant("l"), 5)), edge(with(tenant("l"), 0))},
			"OVER_LIMIT, OVER_LIMIT 0 of tenant/all 5/HOUR"},
		{"negative hits give back",
			[]*rlsv3.RateLimitRequest{edge(with(tenant("m"), 5)), edge(with(tenant("m"), -3))},
			"OK, OK 3 of tenant/all 5/HOUR"},
		{"a denied one charges nothing of the others",
			[]*rlsv3.RateLimitRequest{edge(with(tenant("n"), 5)), edge(tenant("n"), tenant("o")),
				edge(with(tenant("o"), 0))}, "OK, OK 5 of tenant/all 5/HOUR"},
		{"the same descriptor twice counts twice", []*rlsv3.RateLimitRequest{edge(tenant("t"), tenant("t"))},
			"OK, OK 3 of tenant/all 5/HOUR, OK 3 of tenant/all 5/HOUR"},
		{"twice is too much together",
			[]*rlsv3.RateLimitRequest{edge(with(tenant("u"), 3), with(tenant("u"), 3)), edge(with(tenant("u"), 0))},
			"OK, OK 5 of tenant/all 5/HOUR"},
		{"more than ever fits", []*rlsv3.RateLimitRequest{edge(with(tenant("v"), 6), tenant("w"))},
			"OVER_LIMIT, OVER_LIMIT 5 of tenant/all 5/HOUR, OK 5 of tenant/all 5/HOUR"},
		{"hits beyond all numbers", []*rlsv3.RateLimitRequest{
			edge(&common.RateLimitDescriptor{Entries: tenant("y").Entries,
				HitsAddend: wrapperspb.UInt64(1 << 63)})}, "OVER_LIMIT, OVER_LIMIT 5 of tenant/all 5/HOUR"},
		{"two policies", []*rlsv3.RateLimitRequest{edge(tenant("z"), describe("path", "/", "remote_address", "::1"))},
			"OK, OK 4 of tenant/all 5/HOUR, OK 2 of login/ip 3/HOUR"},
		{"a shadow denies nothing", []*rlsv3.RateLimitRequest{edge(tried("a")), edge(tried("a"))}, "OK, OK"},
		{"Envoy's limit",
			[]*rlsv3.RateLimitRequest{edge(limited(tenant("A"), 2, typev3.RateLimitUnit_DAY))},
			"OK, OK 1 of tenant/all 2/DAY"},
		{"Envoy's limit of nothing", []*rlsv3.RateLimitRequest{
			edge(limited(tenant("B"), 0, typev3.RateLimitUnit_DAY), tenant("C"))},
			"OVER_LIMIT, OVER_LIMIT, OK 5 of tenant/all 5/HOUR"},
		{"Envoy's limit without a unit", []*rlsv3.RateLimitRequest{
			edge(limited(tenant("D"), 2, typev3.RateLimitUnit_UNKNOWN))},
			"InvalidArgument: the limit of descriptor 1 has unit 0 and multiplier 0, which is no period"},
		{"a long value",
			[]*rlsv3.RateLimitRequest{
				edge(tenant(strings.Repeat("x", 60_000))), edge(tenant(strings.Repeat("x", 60_000)))},
			"OK, OK 3 of tenant/all 5/HOUR"},
	} {
		var got string
		for _, request := range test.requests {
			got = summary(ask(conn, request))
		}
		if got != test.want {
			t.Errorf("%s:\n%s, not\n%s", test.name, got, test.want)
		}
	}
	var many []*common.RateLimitDescriptor
	for i := range 65 {
		many = append(many, tenant(fmt.Sprint("many", i)))
	}
	if got := summary(ask(conn, edge(many...))); !strings.HasPrefix(got, codes.InvalidArgument.String()) {
		t.Errorf("65 descriptors are answered %s", got)
	}
	if got := summary(ask(conn, edge(many[:64]...))); !strings.HasPrefix(got, "OK") {
		t.Errorf("64 descriptors are answered %s", got)
	}
}

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
envoy:
  edge:
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
