package probe

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
)

// alike is an endpoint that answers all requests alike.
type alike struct {
	clock   *testClock
	outcome endpoint.Outcome
	status  int
	header  http.Header
}

func (a *alike) Connect(context.Context) error { return nil }

func (a *alike) Places() (subject, cost bool) { return true, true }

func (a *alike) Describe() string { return "http://127.0.0.1/" }

func (a *alike) Close() error { return nil }

func (a *alike) Send(ctx context.Context, _ string, _ int64, answer *endpoint.Answer) error {
	answer.Sent = a.clock.now
	a.clock.now = a.clock.now.Add(time.Millisecond)
	answer.Answered, answer.Outcome, answer.Status, answer.Header = a.clock.now, a.outcome, a.status, a.header
	return ctx.Err()
}

// An endpoint that answers all requests alike has no limit that could be seen, and what it answers is said.
func TestTheSameAnswerToAllIsSaid(t *testing.T) {
	for _, c := range []struct {
		outcome endpoint.Outcome
		status  int
		header  http.Header
		note    string
	}{
		{endpoint.Allowed, 401, nil, "every answer was 401 Unauthorized, so the limit may not have been asked"},
		{endpoint.Allowed, 302, nil, "every answer was 302 Found, so the limit may not have been asked"},
		{endpoint.Allowed, 200, nil, "48 of 48 requests were admitted in 48 ms and none was denied; --requests N sends more"},
		{endpoint.Denied, 429, nil, "every request was denied; look later"},
	} {
		client := &alike{clock: &testClock{now: time.Unix(1_700_000_000, 0)}, outcome: c.outcome, status: c.status, header: c.header}
		seen, err := Look(t.Context(), &Config{Client: client, Clock: client.clock, Quota: 60, MaxTime: 8 * time.Second, Workers: 1})
		if err != nil || len(seen.Notes) != 1 || !strings.HasPrefix(seen.Notes[0], c.note) || seen.Denial != nil != (c.status == 429) {
			t.Errorf("status %d: notes %q, want %q, %v", c.status, seen.Notes, c.note, err)
		}
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
		client := &alike{clock: &testClock{now: time.Unix(1_700_000_000, 0)}, outcome: endpoint.Allowed, status: status}
		result, err := Run(t.Context(),
			&Config{Client: client, Clock: client.clock, Limit: limit, Quota: 3000, MaxTime: time.Minute, Workers: 1})
		if c := result.Checks[0]; err != nil || c.Verdict != want.Verdict || !strings.HasPrefix(c.Seen, want.Seen) ||
			result.Overall() != want.Verdict {
			t.Errorf("%d: %s, %+v, %v", status, result.Overall(), c, err)
		}
	}
}
