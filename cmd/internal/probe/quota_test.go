package probe

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
