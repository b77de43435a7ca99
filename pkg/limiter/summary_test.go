package limiter_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Shadows do not count in what is said of all limits together, and neither does what was
// not asked beside what was.
func TestSummarize(t *testing.T) {
	allowed := limiter.Decision{Allowed: true, Used: 1, Remaining: 5, ResetAfter: time.Minute, Delay: time.Second}
	denied := limiter.Decision{Used: 7, Remaining: 2, RetryAfter: time.Second, ResetAfter: time.Hour}
	notAsked := limiter.Decision{Allowed: true, Unguarded: true}
	shadow := func(d limiter.Decision) limiter.Decision {
		d.Shadow = true
		return d
	}
	yes := limiter.Summary{Allowed: true, Used: 1, Remaining: 5, ResetAfter: time.Minute, Delay: time.Second}
	no := func(by ...int) limiter.Summary {
		return limiter.Summary{Used: 7, Remaining: 2, RetryAfter: time.Second, ResetAfter: time.Hour, DeniedBy: by}
	}
	for name, test := range map[string]struct {
		decisions []limiter.Decision
		want      limiter.Summary
	}{
		"one": {[]limiter.Decision{allowed}, yes},
		"two": {[]limiter.Decision{allowed, denied}, limiter.Summary{Used: 1, Remaining: 2, RetryAfter: time.Second,
			ResetAfter: time.Hour, Delay: time.Second, DeniedBy: []int{1}}},
		"both denied":      {[]limiter.Decision{denied, denied}, no(0, 1)},
		"a shadow after":   {[]limiter.Decision{allowed, shadow(denied)}, yes},
		"a shadow before":  {[]limiter.Decision{shadow(denied), allowed}, yes},
		"shadows alone":    {[]limiter.Decision{shadow(allowed), shadow(denied)}, limiter.Summary{Allowed: true, Used: 1, Remaining: 2}},
		"one not asked":    {[]limiter.Decision{denied, notAsked}, no(0)},
		"not asked first":  {[]limiter.Decision{shadow(allowed), notAsked, denied}, no(2)},
		"none asked":       {[]limiter.Decision{{Unguarded: true}, {Unguarded: true}}, limiter.Summary{Unguarded: true}},
		"let through":      {[]limiter.Decision{notAsked}, limiter.Summary{Allowed: true, Unguarded: true}},
		"a shadow allowed": {[]limiter.Decision{shadow(allowed), denied}, no(1)},
	} {
		got := limiter.Summarize(test.decisions)
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, test.want)
		}
		if got.Allowed != limiter.AllAllowed(test.decisions) {
			t.Errorf("%s: AllAllowed says another thing", name)
		}
	}
}

// Who made the decision that the answer comes from.
func TestSummarizeSaysWhoDecided(t *testing.T) {
	by := func(allowed bool, decider limiter.Decider) limiter.Decision {
		return limiter.Decision{Allowed: allowed, DecidedBy: decider}
	}
	shadow := by(false, limiter.DecidedByOverride)
	shadow.Shadow = true
	yes, no := by(true, limiter.DecidedByStore), by(false, limiter.DecidedByStore)
	policy := limiter.Decision{Unguarded: true, DecidedBy: limiter.DecidedByFailurePolicy}
	for name, test := range map[string]struct {
		decisions []limiter.Decision
		want      limiter.Decider
	}{
		"none":                 {nil, limiter.DecidedByStore},
		"store":                {[]limiter.Decision{yes, no}, limiter.DecidedByStore},
		"local":                {[]limiter.Decision{by(true, limiter.DecidedByLocal), by(true, limiter.DecidedByLocal)}, limiter.DecidedByLocal},
		"policy":               {[]limiter.Decision{policy, policy}, limiter.DecidedByFailurePolicy},
		"another allowed":      {[]limiter.Decision{yes, by(true, limiter.DecidedByOverride)}, limiter.DecidedByOverride},
		"the store denied":     {[]limiter.Decision{by(true, limiter.DecidedByOverride), no}, limiter.DecidedByStore},
		"another denied":       {[]limiter.Decision{yes, by(false, limiter.DecidedByOverride)}, limiter.DecidedByOverride},
		"not asked":            {[]limiter.Decision{no, {Allowed: true, Unguarded: true}}, limiter.DecidedByStore},
		"a shadow beside":      {[]limiter.Decision{shadow, yes}, limiter.DecidedByStore},
		"nothing but a shadow": {[]limiter.Decision{shadow}, limiter.DecidedByOverride},
	} {
		if got := limiter.Summarize(test.decisions).DecidedBy; got != test.want {
			t.Errorf("%s: decided by %s, want %s", name, got, test.want)
		}
	}
}
