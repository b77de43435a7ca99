package probe

import (
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// bursty lets a request through if one of two limits has room, as the BurstyRateLimiter of rate-limiter-flexible does.
type bursty struct{ usual, extra *ours }

func (b *bursty) decide(subject string, now store.Instant) bool {
	return b.usual.decide(subject, now) || b.extra.decide(subject, now)
}

// What no word of a limit describes is no failure: the probe says what it saw, and what to do next.
func TestABurstyPairIsNotNamedAndFailsNothing(t *testing.T) {
	tier.Full(t, "finding that no limit explains the answers takes long")
	for seed := range seeds(12) {
		s := simulated(&bursty{newOurs(t, "fixed-window:5/1s,from=first"), newOurs(t, "fixed-window:10/10s,from=first")})
		r := runWhole(t, s, everything(s), seed).withoutRetry()
		for _, c := range r.Checks {
			if c.Verdict == Fail {
				t.Errorf("seed %d: %s: expected %s, seen %s", seed, c.Name, c.Expected, c.Seen)
			}
		}
		notes := strings.Join(r.Notes, "; ")
		if r.Overall() != Unknown || !strings.Contains(notes, "seen: 15 requests admitted at once") || !strings.Contains(notes, "--limit") {
			t.Errorf("seed %d: %s, %v, %q", seed, r.Overall(), r.Limit, notes)
		}
	}
}
