package main

import (
	"testing"
	"time"
)

// In each drill our callers have no worse results than those of redis_rate on the same machine, by the share of
// failed calls and the time by which one exceeds its deadline.
func TestOneSickPartIsNobodyElsesOutage(t *testing.T) {
	servers, err := launchDrillServers()
	if err != nil {
		t.Fatal(err)
	}
	defer servers.stop()
	limiters := drilled()
	for _, d := range servers.drills() {
		t.Run(d.name, func(t *testing.T) {
			// A machine that is busy for a moment says nothing about a limiter.
			var why string
			for range 3 {
				var seen [2]outcome
				for i, l := range limiters {
					o, err := d.run(500*time.Millisecond, l)
					if err != nil {
						t.Fatal(err)
					}
					seen[i] = o
				}
				t.Logf("limitctl %+v, redis_rate %+v", seen[0], seen[1])
				if why = seen[0].worseThan(seen[1]); why == "" {
					return
				}
			}
			t.Errorf("three times %s", why)
		})
	}
}

// worseThan returns in what respect o is worse than others, beyond chance; empty if in none.
func (o outcome) worseThan(others outcome) string {
	failing := func(o outcome) float64 { return float64(o.failed) / float64(max(o.answered+o.failed, 1)) }
	switch {
	case failing(o) > failing(others)+0.05:
		return "more calls failed"
	case o.answered < others.answered/2:
		return "fewer calls were answered"
	case o.overrun > 2*others.overrun+500*time.Millisecond:
		return "a call outlived its deadline by more"
	}
	return ""
}
