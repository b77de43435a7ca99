package probe

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
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
