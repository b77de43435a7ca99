package store_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Shadows do not count in what is said of all limits together, and neither does what was not asked beside what was.
func TestSummarize(t *testing.T) {
	allowed := store.Decision{Allowed: true, Used: 1, Remaining: 5, ResetAfter: time.Minute, Delay: time.Second}
	denied := store.Decision{Used: 7, Remaining: 2, RetryAfter: time.Second, ResetAfter: time.Hour}
	notAsked := store.Decision{Allowed: true, Unguarded: true}
	shadow := func(d store.Decision) store.Decision {
		d.Shadow = true
		return d
	}
	by := func(d store.Decision, decider store.Decider) store.Decision {
		d.DecidedBy = decider
		return d
	}
	yes := store.Summary{Allowed: true, Used: 1, Remaining: 5, ResetAfter: time.Minute, Delay: time.Second}
	no := func(by ...int) store.Summary {
		return store.Summary{Used: 7, Remaining: 2, RetryAfter: time.Second, ResetAfter: time.Hour, DeniedBy: by}
	}
	for name, test := range map[string]struct {
		decisions []store.Decision
		want      store.Summary
	}{
		"one": {[]store.Decision{allowed}, yes},
		"two": {[]store.Decision{allowed, denied}, store.Summary{Used: 1, Remaining: 2, RetryAfter: time.Second,
			ResetAfter: time.Hour, Delay: time.Second, DeniedBy: []int{1}}},
		"a shadow before": {[]store.Decision{shadow(denied), allowed}, yes},
		"shadows alone": {[]store.Decision{shadow(allowed), shadow(denied)}, store.Summary{
			Allowed: true, Used: 1, Remaining: 2}},
		"one not asked":   {[]store.Decision{denied, notAsked}, no(0)},
		"not asked first": {[]store.Decision{shadow(allowed), notAsked, denied}, no(2)},
		"by an override": {[]store.Decision{allowed, by(denied, store.DecidedByOverride)}, store.Summary{Used: 1,
			Remaining: 2, RetryAfter: time.Second, ResetAfter: time.Hour, Delay: time.Second, DeniedBy: []int{1},
			DecidedBy: store.DecidedByOverride}},
		"denied beside an override": {[]store.Decision{by(allowed, store.DecidedByOverride), denied}, store.Summary{
			Used: 1, Remaining: 2, RetryAfter: time.Second, ResetAfter: time.Hour, Delay: time.Second,
			DeniedBy: []int{1}}},
		"let through": {[]store.Decision{notAsked}, store.Summary{Allowed: true, Unguarded: true}},
	} {
		got := store.Summarize(test.decisions)
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, test.want)
		}
		if got.Allowed != store.AllAllowed(test.decisions) {
			t.Errorf("%s: AllAllowed says another thing", name)
		}
	}
}
