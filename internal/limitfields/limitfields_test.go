package limitfields

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var noon = time.Unix(1_700_000_000, 0)

// fataler is the part of [testing.T] that tests and property tests share.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// read reads the fields as a client does, and fails on anything that is malformed. states are the limits of RateLimit.
func read(t fataler, header http.Header, now time.Time) (r headers.Reading, states []headers.Limit) {
	t.Helper()
	r = headers.ReadAnswer(&endpoint.Answer{Header: header, Answered: now}, 0)
	if len(r.Problems) > 0 || r.RetryProblem != "" {
		t.Fatalf("%v: %q, %q", header, r.Problems, r.RetryProblem)
	}
	names := map[string]bool{}
	for _, l := range r.Limits {
		if names[l.CountField] {
			t.Fatalf("%s is there twice: %v", l.CountField, header)
		}
		if names[l.CountField] = true; l.Dialect == headers.DialectDraft8 && l.Remaining != headers.NotTold {
			states = append(states, l)
		}
	}
	return r, states
}

func limitOf(text string) store.Limit {
	limit, err := store.ParseLimit(text)
	if err != nil {
		panic(err)
	}
	return limit
}

func asked(limits ...string) []store.Request {
	var reqs []store.Request
	for _, text := range limits {
		reqs = append(reqs, store.Request{Key: store.Key{Subject: "user:42"}, Limit: limitOf(text), Cost: 1})
	}
	return reqs
}

func TestHeaders(t *testing.T) {
	second := time.Second
	block := &store.Override{Effect: store.OverrideBlock}
	triple := &store.Override{Effect: store.OverrideTimes, Thousandths: 3000}
	another := &store.Override{Effect: store.OverrideLimit, Limit: limitOf("fixed-window:7/1h")}
	exempt := &store.Override{Effect: store.OverrideExempt}
	unasked := store.Decision{Allowed: true, Unguarded: true}
	for _, test := range []struct {
		what      string
		names     []string
		limits    []string
		decisions []store.Decision
		policies  string
		states    string
		others    string // X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After
	}{
		{"two limits of a policy", []string{"burst", "daily"}, []string{"fixed-window:100/1m", "fixed-window:1000/1d"},
			[]store.Decision{
				{Allowed: true, Used: 50, Remaining: 50, ResetAfter: 29*second + 1},
				{Allowed: true, Used: 900, Remaining: 100, ResetAfter: 3600 * second},
			},
			`"burst";q=100;w=60,"daily";q=1000;w=86400`, `"burst";r=50;t=30,"daily";r=100;t=3600`,
			"100 50 1700000030"},
		{"several limits without a policy", nil, []string{"10/1m", "sliding-log:3/1h", "20/1m"},
			[]store.Decision{{Allowed: true, Remaining: 9}, {Allowed: true, Remaining: 2},
				{Allowed: true, Remaining: 3}},
			`"token-bucket/1m";q=10;w=60,"sliding-log/1h";q=3;w=3600,"token-bucket/1m+";q=20;w=60`,
			`"token-bucket/1m";r=9;t=0,"sliding-log/1h";r=2;t=0,"token-bucket/1m+";r=3;t=0`, "3 2 1700000000"},
		{"a bucket: t is the next unit, and what is saved up can be more than q", nil, []string{"10/1m,burst=20"},
			[]store.Decision{{Allowed: true, Used: 5, Remaining: 15, ResetAfter: 29 * second}},
			`"default";q=10;w=60`, `"default";r=15;t=5`, "20 15 1700000005"},
		{"periods that are not whole seconds", []string{"a", "b", "c"},
			[]string{"fixed-window:3/700ms", "fixed-window:5/1500ms", "fixed-window:1/1ms"},
			[]store.Decision{{Allowed: true, Remaining: 2}, {Allowed: true, Remaining: 4}, {Allowed: true}},
			`"a";q=4;w=1,"b";q=5;w=2,"c";q=1000;w=1`, `"a";r=2;t=0,"b";r=4;t=0,"c";r=0;t=0`, "1 0 1700000000"},
		{"a denial", []string{"burst", "daily"}, []string{"10/1m", "1000/1d"},
			[]store.Decision{
				{Used: 10, RetryAfter: 1500 * time.Millisecond, ResetAfter: 60 * second},
				{Allowed: true, Used: 10, Remaining: 990, ResetAfter: 864 * second},
			},
			`"burst";q=10;w=60,"daily";q=1000;w=86400`, `"burst";r=0;t=2,"daily";r=990;t=87`, "10 0 1700000002 2"},
		{"a shadow that would deny", []string{"a", "trial"}, []string{"fixed-window:10/1m", "fixed-window:1/1m"},
			[]store.Decision{
				{Allowed: true, Used: 4, Remaining: 6, ResetAfter: second},
				{Shadow: true, RetryAfter: second, ResetAfter: second},
			},
			`"a";q=10;w=60`, `"a";r=6;t=1`, "10 6 1700000001"},
		{"nothing but a shadow", []string{"trial"}, []string{"1/1m"},
			[]store.Decision{{Shadow: true, RetryAfter: second, ResetAfter: second}}, "", "", ""},
		{"an exempt client", []string{"a"}, []string{"1/1m"},
			[]store.Decision{{Allowed: true, Used: 1, DecidedBy: store.DecidedByOverride, Override: exempt}},
			"", "", ""},
		{"three times as much", []string{"a"}, []string{"10/1m,burst=20"},
			[]store.Decision{{Allowed: true, Used: 1, Remaining: 59, ResetAfter: 2 * second, Override: triple}},
			`"a";q=30;w=60`, `"a";r=59;t=2`, "60 59 1700000002"},
		{"another limit, by its local share", []string{"a"}, []string{"100/1m"},
			[]store.Decision{{Allowed: true, Used: 1, Remaining: 2, ResetAfter: 60 * second, Override: another,
				DecidedBy: store.DecidedByLocal, LocalShare: store.WholeShare / 2}},
			`"a";q=3;w=3600`, `"a";r=2;t=60`, "3 2 1700000060"},
		{"a blocked key", []string{"a"}, []string{"10/1m"},
			[]store.Decision{{RetryAfter: 90 * second, ResetAfter: 90 * second, DecidedBy: store.DecidedByOverride,
				Override: block}},
			`"a";q=10;w=60`, `"a";r=0;t=90`, "10 0 1700000090 90"},
		{"a limit that was not asked", []string{"a", "b"}, []string{"10/1m", "5/1m"},
			[]store.Decision{unasked, {RetryAfter: second, ResetAfter: 60 * second}},
			`"a";q=10;w=60,"b";q=5;w=60`, `"b";r=0;t=1`, "5 0 1700000001 1"},
		{"nobody was asked, all are let in", []string{"a"}, []string{"10/1m"},
			[]store.Decision{{Allowed: true, Unguarded: true, DecidedBy: store.DecidedByFailurePolicy}},
			`"a";q=10;w=60`, "", ""},
		{"nobody was asked, all are denied", []string{"a"}, []string{"10/1m"},
			[]store.Decision{{Unguarded: true, DecidedBy: store.DecidedByFailurePolicy}}, `"a";q=10;w=60`, "", "1"},
		{"names as structured fields need them", []string{`a"b\c`, "ä%\x00", ""}, []string{"1/1m", "2/1m", "3/1m"},
			[]store.Decision{unasked, unasked, unasked},
			`"a\"b\\c";q=1;w=60,"%C3%A4%25%00";q=2;w=60,"";q=3;w=60`, "", ""},
		{"no limits", []string{}, nil, nil, "", "", ""},
	} {
		header := http.Header{}
		Set(header, all, named(test.names...), asked(test.limits...), test.decisions, noon)
		var others []string
		for _, name := range []string{limitField, remainingField, resetField, retryAfterField} {
			others = append(others, header[name]...)
		}
		if header.Get(policyField) != test.policies || header.Get(rateLimitField) != test.states ||
			strings.Join(others, " ") != test.others {
			t.Errorf("%s: it told %v", test.what, header)
		}
		read(t, header, noon)
	}
}

const all = RateLimit | XRateLimit | RetryAfter

// named returns limits of a policy with these names; nil without any.
func named(names ...string) (limits []policy.Limit) {
	for _, name := range names {
		limits = append(limits, policy.Limit{Limit: limiter.Limit{Name: name}})
	}
	return limits
}

// Set sets only the selected fields and replaces their old values.
func TestHeadersAreChosen(t *testing.T) {
	reqs := asked("10/1m")
	decisions := []store.Decision{{RetryAfter: time.Second, ResetAfter: time.Minute}}
	for h, want := range map[Selection][]string{
		0:                      {},
		RateLimit:              {policyField, rateLimitField},
		XRateLimit:             {limitField, remainingField, resetField},
		RetryAfter:             {retryAfterField},
		RateLimit | RetryAfter: {policyField, rateLimitField, retryAfterField},
		all:                    {policyField, rateLimitField, limitField, remainingField, resetField, retryAfterField},
	} {
		header := http.Header{}
		for _, name := range want {
			header[name] = []string{"old", "older"}
		}
		header["Content-Type"] = []string{"text/plain"}
		Set(header, h, nil, reqs, decisions, noon)
		if len(header) != len(want)+1 {
			t.Errorf("%d sets %v, not %v", h, header, want)
		}
		for _, name := range want {
			if values := header[name]; len(values) != 1 || strings.HasPrefix(values[0], "old") {
				t.Errorf("%d leaves %s: %q", h, name, values)
			}
		}
	}
}
