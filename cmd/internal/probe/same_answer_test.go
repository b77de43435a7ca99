package probe

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// alike is an endpoint that answers all requests alike.
type alike struct {
	clock   *testClock
	outcome endpoint.Outcome
	status  int
}

func (a *alike) Connect(context.Context) error { return nil }

func (a *alike) Describe() string { return "http://127.0.0.1/" }

func (a *alike) Close() error { return nil }

func (a *alike) Send(ctx context.Context, _ string, _ int64, answer *endpoint.Answer) error {
	answer.Sent = a.clock.now
	a.clock.now = a.clock.now.Add(time.Millisecond)
	answer.Answered, answer.Outcome, answer.Status = a.clock.now, a.outcome, a.status
	return ctx.Err()
}

// An endpoint that answers all requests alike has no limit that could be seen, and what it answers is
// said.
func TestTheSameAnswerToAllIsSaid(t *testing.T) {
	for _, c := range []struct {
		outcome endpoint.Outcome
		status  int
		note    string // empty for none
	}{
		{endpoint.Allowed, 401, "every answer was 401 Unauthorized, so the limit may not have been asked"},
		{endpoint.Allowed, 302, "every answer was 302 Found, so the limit may not have been asked"},
		{endpoint.Allowed, 200, ""},
		{endpoint.Failed, 503, "no request was answered: 503 Service Unavailable"},
		{endpoint.Denied, 429, "every request was denied, so nothing is known about a limit"},
	} {
		client := &alike{clock: &testClock{now: time.Unix(1_700_000_000, 0)}, outcome: c.outcome, status: c.status}
		result, _ := Run(t.Context(), &Config{Client: client, Clock: client.clock, Quota: 60, MaxTime: 8 * time.Second, Workers: 1})
		has := slices.ContainsFunc(result.Notes, func(note string) bool { return c.note != "" && strings.HasPrefix(note, c.note) })
		if says := strings.Contains(strings.Join(result.Notes, "; "), "every answer"); has != (c.note != "") || says && c.note == "" {
			t.Errorf("status %d: notes %q, want %q", c.status, result.Notes, c.note)
		}
		if result.Limit != nil {
			t.Errorf("status %d: found %s", c.status, result.Limit)
		}
	}
}

// An endpoint that turns all requests away before its limit is not accused of admitting too many.
func TestALimitThatWasNotAskedIsNotJudged(t *testing.T) {
	limit, err := store.ParseLimit("fixed-window:20/2s")
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]Check{
		401: {Verdict: Unknown, Seen: "every answer was 401 Unauthorized, so the limit may not have been asked; are the"},
		404: {Verdict: Unknown, Seen: "every answer was 404 Not Found, so the limit may not have been asked; are the"},
		200: {Verdict: Fail, Seen: "4 too many: request 22 of a subject was admitted"},
	} {
		client := &alike{clock: &testClock{now: time.Unix(1_700_000_000, 0)}, outcome: endpoint.Allowed, status: status}
		result, err := Run(t.Context(),
			&Config{Client: client, Clock: client.clock, Limit: &limit, Quota: 3000, MaxTime: time.Minute, Workers: 1})
		if c := result.Checks[0]; err != nil || c.Verdict != want.Verdict || !strings.HasPrefix(c.Seen, want.Seen) ||
			result.Overall() != want.Verdict {
			t.Errorf("%d: %s, %+v, %v", status, result.Overall(), c, err)
		}
	}
}

func TestHintsAboutAWait(t *testing.T) {
	for _, c := range []struct {
		told   time.Duration
		isDate bool
		want   string
	}{
		{3602 * time.Second, false, "; it looks like milliseconds"}, {3602 * time.Second, true, ""}, {9 * time.Second, false, ""},
		{1_700_000_000 * time.Second, false, "; it looks like a unix time"},
	} {
		if got := hint(&headers.Reading{RetryAfter: c.told, RetryDate: c.isDate}, 2*time.Second); got != c.want {
			t.Errorf("%s, a date %t: %q", c.told, c.isDate, got)
		}
	}
}

func TestASpanHasNoMoreDigitsThanItWasRoundedTo(t *testing.T) {
	for d := range 1000 {
		if text := span(time.Second + time.Duration(d)*10*time.Millisecond); len(text) > len("10.99 s") {
			t.Errorf("%s", text)
		}
	}
}
