package envoy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// For any value there is a key, and different values have different keys.
func TestEveryValueHasAKeyOfItsOwn(t *testing.T) {
	for _, n := range []int{1, 10} {
		seen := map[string]string{}
		for _, part := range []string{"x", "\xff", "%", ":", "\x00"} {
			for _, length := range []int{0, 1, 10, 50, 100, 300, 1000, 100_000} {
				value := strings.Repeat(part, length)
				limit, attributes := policy.Limit{Limit: limiter.Limit{Name: "l"}}, policy.Attributes{}
				d := configfile.EnvoyDescriptor{Entries: make([]configfile.EnvoyEntry, n)}
				for i := range n {
					name := fmt.Sprint("a", i)
					limit.By = append(limit.By, name)
					attributes[name] = d.AttributeOf(value)
				}
				key := (&policy.Policy{Name: "p"}).Key(&limit, attributes)
				if err := key.Validate(); err != nil {
					t.Errorf("%d values of %d times %q: %v", n, length, part, err)
				}
				if other, is := seen[key.Subject]; is && other != value {
					t.Errorf("%.20q and %.20q share the key %.50q", other, value, key.Subject)
				}
				seen[key.Subject] = value
			}
		}
	}
}

func TestMatch(t *testing.T) {
	known := configfile.EnvoyDescriptor{
		Entries: []configfile.EnvoyEntry{{Key: "k", Value: "v", Fixed: true}, {Key: "ip", Attribute: "ip"}}}
	for _, test := range []struct {
		entries []rls.Entry
		want    bool
	}{
		{[]rls.Entry{{Key: "k", Value: "v"}, {Key: "ip", Value: "1"}}, true},
		{[]rls.Entry{{Key: "ip", Value: "1"}, {Key: "k", Value: "v"}}, true},
		{[]rls.Entry{{Key: "k", Value: "w"}, {Key: "ip", Value: "1"}}, false},
		{[]rls.Entry{{Key: "ip", Value: "1"}, {Key: "ip", Value: "2"}}, false},
		{[]rls.Entry{{Key: "ip", Value: "1"}}, false},
		{[]rls.Entry{{Key: "k", Value: "v"}, {Key: "ip", Value: "1"}, {Key: "x", Value: "y"}}, false},
		{nil, false},
	} {
		attributes, got := match(&rls.Descriptor{Entries: test.entries}, &known)
		if got != test.want || got && (len(attributes) != 1 || attributes["ip"] != "1") {
			t.Errorf("%v: %v, %t", test.entries, attributes, got)
		}
	}
}

func TestOperation(t *testing.T) {
	for _, test := range []struct {
		d     rls.Descriptor
		hits  uint32
		op    store.Op
		units int64
	}{
		{rls.Descriptor{}, 0, store.Take, 1},
		{rls.Descriptor{}, 7, store.Take, 7},
		{rls.Descriptor{HasHits: true}, 7, store.Peek, 1},
		{rls.Descriptor{HasHits: true, Hits: 3}, 7, store.Take, 3},
		{rls.Descriptor{HasHits: true, Hits: 3, Negative: true}, 7, store.Refund, 3},
		{rls.Descriptor{Negative: true}, 7, store.Refund, 7},
		{rls.Descriptor{HasHits: true, Hits: 1 << 63}, 0, store.Take, store.MaxCount},
	} {
		if op, units := operation(&test.d, test.hits); op != test.op || units != test.units {
			t.Errorf("%+v of %d: %s of %d", test.d, test.hits, op, units)
		}
	}
}

// The address in an entry is what HTTP requests have for it, where the policy takes the attribute from the client.
func TestAnEntryIsItsClient(t *testing.T) {
	client := httplimit.Rule{Attributes: map[string]httplimit.Source{"ip": httplimit.MustSource("client")}}
	entries := []configfile.EnvoyEntry{{Key: "remote_address", Attribute: "ip"}}
	settings := &engine.Settings{File: configfile.File{Envoy: configfile.EnvoyDomains{}}}
	settings.HTTP.Rules = map[string]httplimit.Rule{"web": client}
	for _, name := range []string{"web", "other"} {
		settings.Policies = append(settings.Policies, &policy.Policy{Name: name})
		settings.Envoy[name] = []configfile.EnvoyDescriptor{{Policy: name, Entries: entries}}
	}
	for _, test := range []struct{ policy, value, want string }{
		{"web", "2001:db8::1", "2001:db8::/64"}, {"web", "64:ff9b::198.51.100.1", "198.51.100.1"},
		{"web", "2001:db8::/56", "2001:db8::/56"}, {"web", "", "(empty)"}, {"other", "2001:db8::1", "2001:db8::1"},
	} {
		entries := []rls.Descriptor{{Entries: []rls.Entry{{Key: "remote_address", Value: test.value}}}}
		calls, err := callsOf(&rls.Request{Domain: test.policy, Descriptors: entries}, newIndex(settings))
		if err != nil || calls[0].ask.Attributes["ip"] != test.want {
			t.Errorf("%+v: %v, %v", test, calls[0].ask.Attributes, err)
		}
	}
}
