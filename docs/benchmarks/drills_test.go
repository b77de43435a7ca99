package main

import (
	"testing"
	"time"
)

// In each drill our callers are served no worse than those of redis_rate, by the share of
// calls that fail and by how long one outlives its deadline, beside it on the same machine.
func TestOneSickPartIsNobodyElsesOutage(t *testing.T) {
	servers, err := launchDrillServers()
	if err != nil {
		t.Fatal(err)
	}
	defer servers.stop()
	limiters := drilled()
	for _, d := range servers.drills() {
		t.Run(d.name, func(t *testing.T) {
			// A machine that is busy elsewhere for a moment says nothing about a limiter.
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

// worseThan says in what o is worse than what others saw, beyond chance; empty if in nothing.
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
