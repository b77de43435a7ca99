package envoyclient

import (
	"fmt"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

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
			[]*rlsv3.RateLimitRequest{{Domain: "else", Descriptors: []*common.RateLimitDescriptor{tenant("a")}}}, "OK, OK"},
		{"no descriptor that matches",
			[]*rlsv3.RateLimitRequest{edge(describe("tenant", "a", "more", "b"), describe("generic_key", "burst"))}, "OK, OK, OK"},
		{"a fixed value, and a period that has no unit",
			[]*rlsv3.RateLimitRequest{edge(describe("tenant", "f", "generic_key", "burst"))},
			"OK, OK 19 of burst/all 10/UNKNOWN"},
		{"no domain",
			[]*rlsv3.RateLimitRequest{{Descriptors: []*common.RateLimitDescriptor{tenant("a")}}},
			"InvalidArgument: the request has no domain"},
		{"no descriptors", []*rlsv3.RateLimitRequest{edge()}, "InvalidArgument: the request has no descriptors"},
		{"hits of the request",
			[]*rlsv3.RateLimitRequest{{Domain: "edge", HitsAddend: 4, Descriptors: []*common.RateLimitDescriptor{tenant("h")}}},
			"OK, OK 1 of tenant/all 5/HOUR"},
		{"hits of a descriptor go first", []*rlsv3.RateLimitRequest{{Domain: "edge", HitsAddend: 4,
			Descriptors: []*common.RateLimitDescriptor{with(tenant("i"), 2), tenant("j")}}},
			"OK, OK 3 of tenant/all 5/HOUR, OK 1 of tenant/all 5/HOUR"},
		{"no hits only ask",
			[]*rlsv3.RateLimitRequest{edge(with(tenant("k"), 0)), edge(with(tenant("k"), 0))}, "OK, OK 5 of tenant/all 5/HOUR"},
		{"no hits are denied when nothing is left", []*rlsv3.RateLimitRequest{edge(with(tenant("l"), 5)), edge(with(tenant("l"), 0))},
			"OVER_LIMIT, OVER_LIMIT 0 of tenant/all 5/HOUR"},
		{"negative hits give back",
			[]*rlsv3.RateLimitRequest{edge(with(tenant("m"), 5)), edge(with(tenant("m"), -3))}, "OK, OK 3 of tenant/all 5/HOUR"},
		{"a denied one charges nothing of the others",
			[]*rlsv3.RateLimitRequest{edge(with(tenant("n"), 5)), edge(tenant("n"), tenant("o")),
				edge(with(tenant("o"), 0))}, "OK, OK 5 of tenant/all 5/HOUR"},
		{"which one was denied is told", []*rlsv3.RateLimitRequest{edge(with(tenant("p"), 5)), edge(tenant("q"), tenant("p"))},
			"OVER_LIMIT, OK 5 of tenant/all 5/HOUR, OVER_LIMIT 0 of tenant/all 5/HOUR"},
		{"one that only asks is denied: nothing is charged", []*rlsv3.RateLimitRequest{edge(with(tenant("r"), 5)),
			edge(tenant("s"), with(tenant("r"), 0)), edge(with(tenant("s"), 0))}, "OK, OK 5 of tenant/all 5/HOUR"},
		{"the same descriptor twice counts twice", []*rlsv3.RateLimitRequest{edge(tenant("t"), tenant("t"))},
			"OK, OK 3 of tenant/all 5/HOUR, OK 3 of tenant/all 5/HOUR"},
		{"twice is too much together",
			[]*rlsv3.RateLimitRequest{edge(with(tenant("u"), 3), with(tenant("u"), 3)), edge(with(tenant("u"), 0))},
			"OK, OK 5 of tenant/all 5/HOUR"},
		{"more than ever fits", []*rlsv3.RateLimitRequest{edge(with(tenant("v"), 6), tenant("w"))},
			"OVER_LIMIT, OVER_LIMIT 5 of tenant/all 5/HOUR, OK 5 of tenant/all 5/HOUR"},
		{"more than ever fits, together",
			[]*rlsv3.RateLimitRequest{edge(with(tenant("x"), 3), with(tenant("x"), 3))},
			"OVER_LIMIT, OVER_LIMIT 5 of tenant/all 5/HOUR, OVER_LIMIT 5 of tenant/all 5/HOUR"},
		{"more than ever fits, and nothing is left", []*rlsv3.RateLimitRequest{edge(with(tenant("E"), 5)), edge(with(tenant("E"), 6))},
			"OVER_LIMIT, OVER_LIMIT 0 of tenant/all 5/HOUR"},
		{"hits beyond all numbers", []*rlsv3.RateLimitRequest{edge(&common.RateLimitDescriptor{Entries: tenant("y").Entries,
			HitsAddend: wrapperspb.UInt64(1 << 63)})}, "OVER_LIMIT, OVER_LIMIT 5 of tenant/all 5/HOUR"},
		{"two policies", []*rlsv3.RateLimitRequest{edge(tenant("z"), describe("path", "/", "remote_address", "::1"))},
			"OK, OK 4 of tenant/all 5/HOUR, OK 2 of login/ip 3/HOUR"},
		{"a shadow denies nothing", []*rlsv3.RateLimitRequest{edge(tried("a")), edge(tried("a"))}, "OK, OK"},
		{"Envoy's limit",
			[]*rlsv3.RateLimitRequest{edge(limited(tenant("A"), 2, typev3.RateLimitUnit_DAY))}, "OK, OK 1 of tenant/all 2/DAY"},
		{"Envoy's limit of nothing", []*rlsv3.RateLimitRequest{edge(limited(tenant("B"), 0, typev3.RateLimitUnit_DAY), tenant("C"))},
			"OVER_LIMIT, OVER_LIMIT, OK 5 of tenant/all 5/HOUR"},
		{"Envoy's limit of one of several",
			[]*rlsv3.RateLimitRequest{edge(limited(describe("remote_address", "A", "path", "/"), 2, typev3.RateLimitUnit_DAY))},
			"OK, OK 2 of login/ip 3/HOUR"},
		{"Envoy's limit without a unit", []*rlsv3.RateLimitRequest{edge(limited(tenant("D"), 2, typev3.RateLimitUnit_UNKNOWN))},
			"InvalidArgument: the limit of descriptor 1 has unit 0 and multiplier 0, which is no period"},
		{"an empty value is a value", []*rlsv3.RateLimitRequest{edge(tenant("")), edge(tenant(""))}, "OK, OK 3 of tenant/all 5/HOUR"},
		{"a long value",
			[]*rlsv3.RateLimitRequest{edge(tenant(strings.Repeat("x", 60_000))), edge(tenant(strings.Repeat("x", 60_000)))},
			"OK, OK 3 of tenant/all 5/HOUR"},
		{"another long value", []*rlsv3.RateLimitRequest{edge(tenant(strings.Repeat("x", 60_001)))}, "OK, OK 4 of tenant/all 5/HOUR"},
		{"a value of control characters",
			[]*rlsv3.RateLimitRequest{edge(tenant(strings.Repeat("\x01", 300)))}, "OK, OK 4 of tenant/all 5/HOUR"},
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

// The fields for several descriptors have one member for each limit, with a unique name, in a fixed order.
func TestFieldsOfSeveralDescriptors(t *testing.T) {
	conn := serve(t, configuration, "--store", "memory:").connect()
	tenant := func(name string) *common.RateLimitDescriptor { return describe("tenant", name) }
	burst := func(name string) *common.RateLimitDescriptor { return describe("generic_key", "burst", "tenant", name) }
	const always = "ratelimit ratelimit-policy x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset"
	for _, test := range []struct {
		name           string
		request        *rlsv3.RateLimitRequest
		fields, policy string
	}{
		{"limits of one name", edge(tenant("a"), burst("a")), always, `"tenant/all";q=5;w=3600,"burst/all";q=10;w=5400`},
		{"a name of its own", edge(tenant("b"), describe("path", "/", "remote_address", "::1")), always,
			`"all";q=5;w=3600,"ip";q=3;w=3600,"route";q=100;w=86400`},
		{"the same twice", edge(tenant("c"), tenant("c")), always, `"all";q=5;w=3600`},
		{"the same, taken and asked", edge(with(tenant("d"), 0), tenant("d")), always, `"all";q=5;w=3600`},
		{"two subjects of one limit", edge(tenant("e"), tenant("f"), burst("e")), always,
			`"tenant/all";q=5;w=3600,"tenant/all+";q=5;w=3600,"burst/all";q=10;w=5400`},
		{"more than ever fits", edge(with(tenant("g"), 6)), always, `"all";q=5;w=3600`},
	} {
		answer, err := ask(conn, test.request)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		var fields []string
		for _, header := range answer.ResponseHeadersToAdd {
			fields = append(fields, header.Key)
			if header.Key == "ratelimit-policy" && header.Value != test.policy {
				t.Errorf("%s: %s, not %s", test.name, header.Value, test.policy)
			}
			if header.Key == "ratelimit" {
				states := strings.Split(header.Value, ",")
				for i, member := range strings.Split(test.policy, ",") {
					name, _, _ := strings.Cut(member, ";")
					if len(states) <= i || !strings.HasPrefix(states[i], name+";r=") {
						t.Errorf("%s: %s for %s", test.name, header.Value, test.policy)
						break
					}
				}
			}
		}
		if got := strings.Join(fields, " "); got != test.fields {
			t.Errorf("%s: the fields are %s", test.name, got)
		}
	}
}
