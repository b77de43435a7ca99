package decide

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/decision"
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
	answer := &decisionAnswer{verb: "allowed", LimitRequest: &cli.LimitRequest{Answer: decision.Answer{
		Key: "a=1 b=1", Requests: reqs, Policy: p, Overrides: []int{-1, -1}, Charges: true,
		Decisions: []store.Decision{{Used: 10, RetryAfter: time.Second}, {Allowed: true, Unguarded: true}}}}}
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
