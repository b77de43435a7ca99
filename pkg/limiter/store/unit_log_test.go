package store

import (
	"testing"

	"github.com/limitctl/limitctl/internal/tier"
)

// A log in steady use, in which as much is dropped as is added, must keep its memory: a decision that copies it each
// time would take time in proportion. Where less is in use than before, its memory follows.
func TestMemoryOfALog(t *testing.T) {
	for _, kept := range []Instant{0, 1, 100} {
		var log unitLog
		now := Instant(0)
		step := func() {
			now++
			log.dropThrough(now - kept)
			log.add(1, now)
		}
		for range 2 * (kept + 1) {
			step()
		}
		if n := tier.Allocations(1000, step); n != 0 {
			t.Errorf("%v allocations when %d are kept", n, kept)
		}
		for range 1000 {
			now++
			log.add(1, now)
		}
		log.dropThrough(now - kept)
		if log.add(1, now+1); cap(log.entries) > max(minLog, 8*log.length()) {
			t.Errorf("memory for %d of %d entries", cap(log.entries), log.length())
		}
	}
}
