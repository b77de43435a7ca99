package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/internal/tier"
)

// With little to spend less is found out, and nothing is claimed that is wrong.
func TestSmallQuotasAreKeptAndClaimNothingWrong(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	exact, wanted := 0, 8
	if !*thorough {
		wanted = 4
	}
	for i, text := range []string{
		"token-bucket:10/1s", "token-bucket:100/1m", "fixed-window:10/1s", "fixed-window:20/1m", "fixed-window:30/5s,from=first",
		"sliding-log:10/10s",
		"sliding-counter:20/10s", "sliding-counter:30/1m,slices=6", "token-bucket:5000/1s", "fixed-window:100/1h",
	} {
		for _, requests := range []int{5, 120, 500} {
			for j, longest := range []time.Duration{5 * time.Second, time.Minute} {
				if (i+j)%2 != 0 && !*thorough {
					continue
				}
				t.Run(fmt.Sprintf("%s with %d in %s", text, requests, longest), func(t *testing.T) {
					s := simulated(newOurs(t, text))
					d, took := discover(t, s, Config{Quota: requests, MaxTime: longest, Workers: 16}, 3)
					if s.sent > requests || took > longest+20*time.Millisecond {
						t.Errorf("%d requests, %s", s.sent, took)
					}
					if d.Exact {
						exact++
					}
					if d.Exact && !anyOf(t, []string{text}, *d.Limit) {
						t.Errorf("claimed %s, notes %q", d.Limit, d.Notes)
					}
					if d.Limit == nil && len(d.Notes) == 0 {
						t.Error("nothing was said")
					}
				})
			}
		}
	}
	if exact < wanted {
		t.Errorf("only %d were found out exactly", exact)
	}
}

func TestWhatIsKnownIsSaidWithoutALimit(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	for _, c := range []struct {
		name     string
		server   *server
		requests int
		note     string
	}{
		{"no limit", simulated(open{}), 300, "300 of 300 requests were admitted in "},
		{"a limit above the quota", simulated(newOurs(t, "fixed-window:5000/1h")), 1000, "and none was denied; the probe sent no more"},
		{"a long period", simulated(newOurs(t, "fixed-window:10/6h,from=first")), 1000, "nothing came back in"},
		{"concurrent requests", func() *server { s := simulated(open{}); s.concurrent = 8; return s }(), 1000, "concurrent requests"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _ := discover(t, c.server, Config{Quota: c.requests, MaxTime: time.Minute, Workers: 16}, 3)
			if d.Exact || !strings.Contains(strings.Join(d.Notes, "; "), c.note) {
				t.Errorf("limit %v, exact %v, notes %q", d.Limit, d.Exact, d.Notes)
			}
		})
	}
}

func TestALargeLimitIsExhaustedByWorkers(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	s := simulated(newOurs(t, "token-bucket:10000/1s"))
	d, _ := discover(t, s, Config{Quota: 40_000, MaxTime: time.Minute, Workers: 64}, 3)
	if d.Limit == nil || !anyOf(t, []string{"token-bucket:10000/1s"}, *d.Limit) {
		t.Errorf("limit %v, notes %q", d.Limit, d.Notes)
	}
}

// A quota that ends just as the first denials come says what was seen.
func TestAQuotaThatEndsWithTheFirstDenialSaysSomething(t *testing.T) {
	s := simulated(newOurs(t, "token-bucket:100/1m"))
	d, _ := discover(t, s, Config{Quota: 101, MaxTime: time.Minute}, 3)
	if d.Limit != nil || !strings.Contains(strings.Join(d.Notes, "; "), "100 were admitted at once") {
		t.Errorf("found %v, notes %q", d.Limit, d.Notes)
	}
}

// slow answers after a while, or when its caller has no more time.
type slow struct {
	*server
	each time.Duration
}

// Send implements [endpoint.Client].
func (s *slow) Send(ctx context.Context, _ string, _ int64, answer *endpoint.Answer) error {
	answer.Sent = time.Now()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.each):
	}
	answer.Status, answer.Outcome, answer.Answered = 200, endpoint.Allowed, time.Now()
	return nil
}

// thinking is a clock by which each judgement takes a while: whoever looks at the time again has thought meanwhile.
type thinking struct{ each time.Duration }

// Now implements [Clock].
func (c thinking) Now() time.Time {
	time.Sleep(c.each)
	return time.Now()
}

// Sleep implements [Clock].
func (thinking) Sleep(ctx context.Context, d time.Duration) error { return systemClock{}.Sleep(ctx, d) }

// A probe ends in its time: neither a slow answer nor the judgement of what was seen makes it late.
func TestAProbeEndsInItsTime(t *testing.T) {
	limit := parse(t, "token-bucket:10/1m")
	for _, config := range []Config{
		{Client: &slow{server: &server{}, each: 17 * time.Second}},
		{Client: &slow{server: &server{}, each: 17 * time.Second}, Timeout: 10 * time.Second},
		{Client: &slow{server: &server{}, each: 17 * time.Second}, Limit: &limit},
		{Client: simulated(newOurs(t, "fixed-window:10/7s")), Clock: thinking{300 * time.Millisecond}},
		{Client: simulated(newOurs(t, "fixed-window:10/7s")), Clock: thinking{300 * time.Millisecond}, Limit: &limit},
	} {
		synctest.Test(t, func(t *testing.T) {
			if s, is := config.Client.(*server); is {
				s.random = rand.New(rand.NewPCG(7, 7))
			}
			config.Quota, config.MaxTime, config.Workers = 3000, time.Minute, 16
			begin := time.Now()
			r, err := Run(t.Context(), &config)
			if took := time.Since(begin); took > config.MaxTime+3*time.Second {
				t.Errorf("it took %s of at most %s: %v, %q", took, config.MaxTime, err, r.Notes)
			}
		})
	}
}

// hanging never answers one of the requests that it lets in.
type hanging struct {
	*server
	at        int64 // which one
	sent, let atomic.Int64
}

// Send implements [endpoint.Client].
func (h *hanging) Send(ctx context.Context, subject string, cost int64, answer *endpoint.Answer) error {
	h.sent.Add(1)
	err := h.server.Send(ctx, subject, cost, answer)
	if answer.Outcome == endpoint.Allowed && h.let.Add(1) == h.at {
		<-ctx.Done()
		*answer = endpoint.Answer{}
		return ctx.Err()
	}
	return err
}

// A request whose answer the end of the time cuts off may have been charged, so the denials that it explains are not wrong.
func TestARequestWithoutAnAnswerAtTheEndMayBeCharged(t *testing.T) {
	limit := parse(t, fmt.Sprintf("fixed-window:%d/1h", explain.Sequential+6)) // so its end comes with several at once
	s := simulated(newOurs(t, limit.String()))
	client := &hanging{server: s, at: explain.Sequential + 2}
	r := runWhole(t, s, Config{Client: client, Limit: &limit, Quota: 3000, MaxTime: time.Minute, Workers: 16}, 3)
	if c := r.check(checkAdmitted); c.Verdict == Fail || int64(len(r.Events)) != client.sent.Load() {
		t.Errorf("%s %s, %d events of %d requests", c.Verdict, c.Seen, len(r.Events), client.sent.Load())
	}
}
