package probe

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
)

// alike is an endpoint that answers all requests alike.
type alike struct {
	server
	outcome endpoint.Outcome
	status  int
}

func (a *alike) Send(ctx context.Context, _ string, _ int64, answer *endpoint.Answer) error {
	answer.Sent = time.Now()
	time.Sleep(time.Millisecond)
	answer.Answered, answer.Outcome, answer.Status = time.Now(), a.outcome, a.status
	return ctx.Err()
}

// An endpoint that answers all requests alike has no limit that could be seen, and what it answers is said.
func TestTheSameAnswerToAllIsSaid(t *testing.T) {
	for _, c := range []struct {
		outcome endpoint.Outcome
		status  int
		note    string
	}{
		{endpoint.Allowed, 401, "every answer was 401 Unauthorized, so the limit may not have been asked"},
		{endpoint.Allowed, 302, "every answer was 302 Found, so the limit may not have been asked"},
		{endpoint.Allowed, 200, "48 of 48 requests were admitted in 48ms and none was denied; --requests N sends more"},
		{endpoint.Denied, 429, "every request was denied; look later"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := &alike{outcome: c.outcome, status: c.status}
			seen, err := Look(t.Context(), &Config{Client: client, Quota: 60, MaxTime: 8 * time.Second, Workers: 1})
			if err != nil || len(seen.Notes) != 1 || !strings.HasPrefix(seen.Notes[0], c.note) ||
				seen.Denial != nil != (c.status == 429) {
				t.Errorf("status %d: notes %q, want %q, %v", c.status, seen.Notes, c.note, err)
			}
		})
	}
}

// An endpoint that turns all requests away before its limit is not accused of admitting too many.
func TestALimitThatWasNotAskedIsNotJudged(t *testing.T) {
	limit := parse(t, "fixed-window:20/2s")
	for status, want := range map[int]Check{
		401: {Verdict: Unknown, Seen: "every answer was 401 Unauthorized, so the limit may not have been asked; are the"},
		404: {Verdict: Unknown, Seen: "every answer was 404 Not Found, so the limit may not have been asked; are the"},
		200: {Verdict: Fail, Seen: "4 units too many, whenever the requests were decided, and no request was denied"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := &alike{outcome: endpoint.Allowed, status: status}
			result, err := Run(t.Context(), &Config{Client: client, Limit: limit, Quota: 3000, MaxTime: time.Minute,
				Workers: 1})
			overall, _ := result.Overall()
			if c := result.Checks[0]; err != nil || c.Verdict != want.Verdict || overall != want.Verdict ||
				!strings.HasPrefix(c.Seen, want.Seen) {
				t.Errorf("%d: %s, %+v, %v", status, overall, c, err)
			}
		})
	}
}
