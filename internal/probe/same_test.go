package probe

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
)

// otherwise asks a server in another way: as another subject, if the server is wrong, and with a status for what it
// admits.
type otherwise struct {
	*server
	as     func(subject string) string
	status int
}

func (o *otherwise) Send(ctx context.Context, subject string, cost int64, answer *endpoint.Answer) error {
	err := o.server.Send(ctx, o.as(subject), cost, answer)
	if o.status != 0 && answer.Outcome == endpoint.Allowed {
		answer.Status = o.status
	}
	return err
}

// unnamed is a client whose requests do not name the subject.
type unnamed struct{ *server }

func (unnamed) Places() (subject, cost bool) { return false, true }

func (u unnamed) Send(ctx context.Context, _ string, cost int64, answer *endpoint.Answer) error {
	return u.server.Send(ctx, "all", cost, answer)
}

// sameLimits have few units, short periods and windows that end at any instant.
var sameLimits = []string{
	"fixed-window:20/2s", "fixed-window:1/10s", "fixed-window:1/100ms", "fixed-window:2/50ms",
	"fixed-window:5/200ms,from=first", "sliding-log:3/1s", "sliding-log:1/50ms", "token-bucket:10/1s",
	"token-bucket:100/1s", "token-bucket:1/20ms", "sliding-counter:5/200ms", "leaky-bucket:3/100ms",
}

// Who is let in in another way is found, whichever limit there is, and where the period ends while it is asked nobody
// is said to be. What answers otherwise, as where there is no such path, has let nobody in.
func TestOtherWaysToAsk(t *testing.T) {
	opened := 0
	anew := func(subject string) string { return fmt.Sprint(subject, "/", opened) }
	for _, test := range []struct {
		what   string
		as     func(subject string) string
		status int
		letsIn bool
	}{
		{"counts it as the same", func(subject string) string { return subject }, 0, false},
		{"counts each as another", anew, 0, true},
		{"has no such path", anew, 404, false},
	} {
		for _, limit := range sameLimits {
			for seed := range uint64(16) {
				s, o := newServed(t, limit, "none", seed)
				o.phase = time.Duration(seed) * s.limit.Period / 16
				s.longest = []time.Duration{time.Millisecond, 5 * time.Millisecond}[seed/2%2]
				var client endpoint.Client = s
				as := test.as
				if seed%2 == 1 {
					client, as = unnamed{s}, func(string) string { return test.as("all") }
				}
				way := Way{Name: "so", Open: func() (endpoint.Client, error) {
					opened++
					return &otherwise{s, as, test.status}, nil
				}}
				r := run(t, s, Config{Client: client, Limit: s.limit, Quota: 3000, MaxTime: time.Minute, Workers: 16,
					Same: []Way{way}})
				c := r.check(checkSameClient)
				if c.Verdict != map[bool]Verdict{false: Pass, true: Fail}[test.letsIn] {
					t.Errorf("%s, %s, %d: %s %q", test.what, limit, seed, c.Verdict, c.Seen)
				}
				if test.letsIn {
					continue
				}
				for _, c := range r.Checks {
					if c.Verdict == Fail && c.Name != checkRetryAfter {
						t.Errorf("%s, %s, %d: %s %q", test.what, limit, seed, c.Name, c.Seen)
					}
				}
			}
		}
	}
}
