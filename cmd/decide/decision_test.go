package decide

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A limit that could not be asked, another having denied already, is not shown as one
// that allows, with nothing used.
func TestALimitThatWasNotAsked(t *testing.T) {
	limit := store.Limit{Algorithm: store.TokenBucket, Count: 10, Burst: 10, Period: time.Minute}
	p := &policy.Policy{Name: "api", Limits: []policy.Limit{
		{Limit: limiter.Limit{Name: "first"}}, {Limit: limiter.Limit{Name: "away"}},
	}}
	reqs := []store.Request{{Key: store.Key{Subject: "a:1", Name: "api/first"}, Limit: limit, Cost: 1},
		{Key: store.Key{Subject: "b:1", Name: "api/away"}, Limit: limit, Cost: 1}}
	answer := &decisionAnswer{verb: "allowed", LimitRequest: &cli.LimitRequest{
		Key: "a=1 b=1", Reqs: reqs, Policy: p, Overrides: []int{-1,
			-1}},
		decisions: []store.Decision{{Used: 10, RetryAfter: time.Second}, {Allowed: true, Unguarded: true}},
		charges:   true}
	var out strings.Builder
	answer.Print(&output.Printer{Out: &out})
	if text := out.String(); !strings.Contains(text, "denied by first") || strings.Contains(text, "✓") ||
		!strings.Contains(text, "not decided") || strings.Contains(text, "0/10 ") && !strings.Contains(text, "10/10") {
		t.Errorf("it says\n%s", text)
	}
	document, err := json.Marshal(answer.Document())
	if err != nil || strings.Count(string(document), `"unguarded":true`) != 1 {
		t.Errorf("it says %s, %v", document, err)
	}
}

// Waiting times of several limits say which limit each is of, and those of one limit do not.
func TestWaitingTimesOfSeveralLimits(t *testing.T) {
	const minute, day = time.Minute, 24 * time.Hour
	p := &policy.Policy{Name: "api", Limits: []policy.Limit{
		{Limit: limiter.Limit{Name: "minute"}}, {Limit: limiter.Limit{Name: "day"}},
		{Limit: limiter.Limit{Name: "trial"}},
	}}
	reqs := make([]store.Request, 3)
	for i := range reqs {
		reqs[i] = store.Request{Key: store.Key{Subject: "a:1", Name: "api/" + p.Limits[i].Name},
			Limit: store.Limit{Algorithm: store.TokenBucket, Count: 10, Burst: 10, Period: minute}, Cost: 1}
	}
	trial := store.Decision{Shadow: true, RetryAfter: minute, ResetAfter: day}
	for want, decisions := range map[string][]store.Decision{
		": 0 remaining, retry in 1m (minute), resets in 1d (day)\n": {
			{RetryAfter: minute}, {Allowed: true, ResetAfter: day}, trial},
		": 0 remaining, retry in 1m, resets in 1d\n": {{RetryAfter: minute, ResetAfter: day}, {Allowed: true}, trial},
		": 0 remaining, resets in 1d\n":              {{Allowed: true}, {Allowed: true, ResetAfter: day}, trial},
		": 0 remaining, its turn in 1m (day), resets in 1m (minute)\n": {{Allowed: true, ResetAfter: minute},
			{Allowed: true, Delay: minute}, trial},
	} {
		answer := &decisionAnswer{verb: "allowed", decisions: decisions,
			LimitRequest: &cli.LimitRequest{Key: "a=1", Reqs: reqs, Policy: p, Overrides: []int{-1, -1, -1}}}
		var out strings.Builder
		if answer.Print(&output.Printer{Out: &out}); !strings.Contains(out.String(), want) {
			t.Errorf("it says\n%s\nand not %q", out.String(), want)
		}
	}
}
