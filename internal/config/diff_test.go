package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestCompareLimits(t *testing.T) {
	for _, test := range []struct {
		before, after string
		want          Change
	}{
		{"10/1m", "10/1m", ""}, {"10/1m", "token-bucket:10/60s,burst=10", ""},
		{"10/1m", "20/1m", Loosened}, {"20/1m", "10/1m", Tightened},
		{"10/1m,burst=20", "10/1m", Tightened}, {"10/1m", "10/1m,burst=20", Loosened},
		{"10/1m", "600/1h", Loosened}, {"600/1h", "10/1m", Tightened}, // the same rate, more at once
		{"10/1s", "100/1m", Changed}, // more at once, less in the long run
		{"10/1m", "fixed-window:20/1m", Changed},
	} {
		before := must(store.ParseLimit(test.before))
		after := must(store.ParseLimit(test.after))
		if got, differs := Compare(before, after); got != test.want || differs != (test.want != "") {
			t.Errorf("from %s to %s it is %q, want %q", test.before, test.after, got, test.want)
		}
	}
}

func TestDifferences(t *testing.T) {
	parse := func(text string) *Config {
		return must(Parse("limitctl.yaml", []byte(text), nil))
	}
	before := parse(`
prefix: rl # which is the default
policies:
  api:
    limits:
      - {name: same, by: [tenant], limit: 10/1m}
      - {name: user, by: [user], limit: 10/1m,
         overrides: [{when: {plan: big}, limit: 100/1m}, {when: {plan: old}, limit: 50/1m}]}
      - {name: trial, by: [tenant], limit: 10/1m, shadow: true}
      - {name: gone, by: [tenant], limit: 1/1s}
      - {name: other, by: [tenant], limit: 1/1s}
  unused:
    limits: [{name: all, by: [ip], limit: 5/1s}]
`)
	after := parse(`
policies:
  api:
    on_error: allow
    wait: 1500ms
    limits:
      - {name: same, by: [tenant], limit: 10/1m, classes: {by: plan, free: 80%}}
      - {name: user, by: [user], limit: 10/1m,
         overrides: [{when: {plan: big}, limit: 90/1m}, {when: {plan: new}, limit: 20/1m}]}
      - {name: trial, by: [tenant], limit: 10/1m}
      - {name: other, by: [tenant, user], limit: 1/1s}
      - {name: born, by: [tenant], limit: 1/1s}
`)
	var got []string
	for _, d := range Differences(before, after) {
		got = append(got, fmt.Sprintf("%s/%s %v %s %s -> %s", d.Policy, d.Limit, d.When, d.Change, d.Old, d.New))
	}
	want := []string{
		"api/same map[] changed no classes -> classes by plan: free leaves 80%",
		"api/user map[plan:big] tightened token-bucket:100/1m -> token-bucket:90/1m",
		"api/user map[plan:old] tightened token-bucket:50/1m -> token-bucket:10/1m",
		"api/user map[plan:new] loosened token-bucket:10/1m -> token-bucket:20/1m",
		"api/trial map[] tightened token-bucket:10/1m, shadow -> token-bucket:10/1m",
		"api/other map[] changed by tenant -> by tenant, user",
		"api/born map[] added  -> token-bucket:1/1s",
		"api/gone map[] dropped token-bucket:1/1s -> ",
		"unused/all map[] dropped token-bucket:5/1s -> ",
		"api/ map[] changed  -> on_error allow",
		"api/ map[] changed  -> wait 1500ms",
	}
	if !slices.Equal(got, want) {
		t.Errorf("they are\n%q\nwant\n%q", got, want)
	}
	if same := Differences(before, before); len(same) > 0 {
		t.Errorf("of the same they are %v", same)
	}
}

// The hash is of what decides: comments, contexts and layouts are not, and all else that is written is.
func TestHash(t *testing.T) {
	const text = "breaker: {pause: 2s}\npolicies: {a: {limits: [{name: x, by: [ip], limit: 1M/1h}]}}\n"
	hash := Hash(must(Parse("a", []byte(text), nil)))
	for other, same := range map[string]bool{
		"# a comment\ncontexts: {b: {store: 'redis://h'}}\nprefix: rl\n" + text: true,
		"layouts: [{layout: redis_rate, keys: 'rate:*'}]\n" + text:              true, // which no published text has
		strings.Replace(text, "2s", "3s", 1):                                    false,
		strings.Replace(text, "1M", "2M", 1):                                    false,
		strings.Replace(text, "[ip]", "[ip, user]", 1):                          false,
		"http: {headers: []}\n" + text:                                          false,
	} {
		if got := Hash(must(Parse("b", []byte(other), nil))); (got == hash) != same {
			t.Errorf("%s, and %s of\n%s", hash, got, other)
		}
	}
}
