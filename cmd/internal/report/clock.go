package report

import (
	"fmt"
	"math"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// StoreClock is the clock that decided, held against the one of the machine that asked. Each
// decision was made between the sending of its request and the answer.
type StoreClock struct {
	// Held is the calls that told an instant, and Untold those that told none.
	Held   int64 `json:"held" merge:"sum"`
	Untold int64 `json:"untold,omitempty" merge:"sum"`
	// AheadMS is how far the store's clock was ahead in the end.
	AheadMS float64 `json:"ahead_ms" range:"signed"`
	// Drift is how much faster the store's clock ran, as a share of the time: 0.02 for 2 %,
	// negative for a slow one. It is 0 if a steady clock explains all instants.
	Drift float64 `json:"drift" merge:"farthest" range:"signed"`
	// Jumps is how often the clock changed at once, and stayed so. Astray is the instants that
	// were wrong by themselves. FarthestMS is the most that an instant was away from where it
	// should have been, negative if it was too early.
	Jumps      int64   `json:"jumps,omitempty" merge:"max"`
	Astray     int64   `json:"astray,omitempty" merge:"sum"`
	FarthestMS float64 `json:"farthest_ms,omitempty" merge:"farthest" range:"signed"`
	// CoarseMS is how long the clock stood still between two of its steps, if that was found.
	CoarseMS float64 `json:"coarse_ms,omitempty" merge:"max"`
}

// wrong is what is wrong with the clock, a sentence each.
func (c *StoreClock) wrong() []string {
	var all []string
	if c == nil {
		return nil
	}
	if c.Drift != 0 {
		way, percent := "fast", 100*math.Abs(c.Drift)
		if c.Drift < 0 {
			way = "slow"
		}
		all = append(all, fmt.Sprintf("the store's clock runs %.2g%% too %s, and periods are as much too %s",
			percent, way, map[string]string{"fast": "short", "slow": "long"}[way]))
	}
	if c.Jumps > 0 {
		all = append(all, fmt.Sprintf("the store's clock jumped %s, by up to %s", times(c.Jumps), c.farthest()))
	}
	if c.Astray > 0 {
		all = append(all, fmt.Sprintf("%s at an instant that it cannot have been, by up to %s",
			plural(c.Astray, "answer")+" told that it was decided", c.farthest()))
	}
	return all
}

func (c *StoreClock) farthest() string {
	return output.Duration(milliseconds(int64(math.Ceil(math.Abs(c.FarthestMS)))))
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%s times", output.Thousands(n))
}

// mergeClocks returns the worst of what several machines found of one clock, each by its own.
func mergeClocks(parts []part) (merged *StoreClock) {
	for _, p := range parts {
		switch {
		case p.Clock == nil:
		case merged == nil:
			first := *p.Clock
			merged = &first
		default:
			addUp(merged, p.Clock)
		}
	}
	return merged
}
