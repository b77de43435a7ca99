package probe

import (
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	for _, text := range []string{
		"token-bucket:10/1s", "token-bucket:100/1m", "token-bucket:10/1s,burst=6", "fixed-window:10/1s", "fixed-window:20/1m", "fixed-window:10/10s,from=first",
		"sliding-log:10/1s", "sliding-log:50/30s", "sliding-counter:10/10s", "sliding-counter:100/1m", "sliding-counter:30/1m,slices=6", "token-bucket:1/1s",
		"token-bucket:1000/1s", "fixed-window:7/7s",
	} {
		t.Run(text, func(t *testing.T) {
			begin := time.Now()
			s := &server{decider: newOurs(t, text), shortest: 200 * time.Microsecond, longest: 3 * time.Millisecond}
			d, took := discover(t, s, Config{Budget: 3000, MaxTime: 10 * time.Minute, Workers: 16})
			t.Logf("%s: %v exact %v phase %v %v, alternatives %v, notes %q, %d requests, %s virtual, %s real", text, d.Limit, d.Exact, d.Phase, d.PhaseKnown, d.Alternatives, d.Notes, len(d.Events), took, time.Since(begin))
		})
	}
}
