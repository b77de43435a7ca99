package envoyclient

import (
	"os"
	"path/filepath"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // named by the sample
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3" // named by the sample
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"
)

// The sample for Envoy is valid by Envoy's own published rules, and the sample for limitctl has a policy for each
// of its descriptors.
func TestTheSamplesFitEachOther(t *testing.T) {
	samples := filepath.Join("..", "samples")
	text, err := os.ReadFile(filepath.Join(samples, "envoy.yaml"))
	must(t, err)
	document, err := yaml.YAMLToJSON(text)
	must(t, err)
	var config bootstrap.Bootstrap
	must(t, protojson.Unmarshal(document, &config))
	if err := config.ValidateAll(); err != nil {
		t.Error(err)
	}
	var http manager.HttpConnectionManager
	if err := config.StaticResources.Listeners[0].FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(
		&http); err != nil {
		t.Fatal(err)
	}
	var filter ratelimit.RateLimit
	must(t, http.HttpFilters[0].GetTypedConfig().UnmarshalTo(&filter))
	for _, err := range []error{http.ValidateAll(), filter.ValidateAll()} {
		if err != nil {
			t.Error(err)
		}
	}
	policies, err := os.ReadFile(filepath.Join(samples, "serve-envoy.yaml"))
	must(t, err)
	conn := serve(t, string(policies), "--store", "memory:").connect()
	asked := 0
	for _, r := range http.GetRouteConfig().VirtualHosts[0].Routes {
		for _, limit := range r.GetRoute().RateLimits {
			answer, err := ask(conn, &rlsv3.RateLimitRequest{
				Domain: filter.Domain, Descriptors: []*common.RateLimitDescriptor{descriptorOf(t, limit)},
			})
			asked++
			if err != nil || answer.Statuses[0].CurrentLimit == nil {
				t.Errorf("%v is answered %v, %v", limit, answer, err)
			}
		}
	}
	if asked != 2 {
		t.Errorf("the sample asks in %d ways", asked)
	}
}

// descriptorOf returns the descriptor that Envoy makes of a request with these actions.
func descriptorOf(t *testing.T, limit *route.RateLimit) *common.RateLimitDescriptor {
	var keysAndValues []string
	for _, action := range limit.Actions {
		switch {
		case action.GetGenericKey() != nil:
			keysAndValues = append(keysAndValues, "generic_key", action.GetGenericKey().DescriptorValue)
		case action.GetRemoteAddress() != nil:
			keysAndValues = append(keysAndValues, "remote_address", "203.0.113.9")
		case action.GetRequestHeaders() != nil:
			keysAndValues = append(keysAndValues, action.GetRequestHeaders().DescriptorKey, "acme")
		default:
			t.Errorf("%v is not known here", action)
		}
	}
	return describe(keysAndValues...)
}
