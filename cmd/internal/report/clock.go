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
	Held   int64 `json:"held"`
	Untold int64 `json:"untold,omitempty"`
	// AheadMS is how far the store's clock was ahead in the end.
	AheadMS float64 `json:"ahead_ms"`
	// Drift is how much faster the store's clock ran, as a share of the time: 0.02 for 2 %,
	// negative for a slow one. It is 0 if a steady clock explains all instants.
	Drift float64 `json:"drift"`
	// Jumps is how often the clock changed at once, and stayed so. Astray is the instants that
	// were wrong by themselves. FarthestMS is the most that an instant was away from where it
	// should have been, negative if it was too early.
	Jumps      int64   `json:"jumps,omitempty"`
	Astray     int64   `json:"astray,omitempty"`
	FarthestMS float64 `json:"farthest_ms,omitempty"`
	// CoarseMS is how long the clock stood still between two of its steps, if that was found.
	CoarseMS float64 `json:"coarse_ms,omitempty"`
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

// figures are the numbers of the clock that cannot be negative.
func (c *StoreClock) figures() (counts []int64, figures []float64) {
	return []int64{c.Held, c.Untold, c.Jumps, c.Astray},
		[]float64{math.Abs(c.AheadMS), math.Abs(c.Drift), math.Abs(c.FarthestMS), c.CoarseMS}
}

// mergeClocks returns the worst of what several machines found of one clock, each by its own.
func mergeClocks(parts []part) (merged *StoreClock) {
	for _, p := range parts {
		c := p.Clock
		if c == nil {
			continue
		}
		if merged == nil {
			first := *c
			merged = &first
			continue
		}
		merged.Held += c.Held
		merged.Untold += c.Untold
		merged.Jumps = max(merged.Jumps, c.Jumps)
		merged.Astray += c.Astray
		merged.CoarseMS = max(merged.CoarseMS, c.CoarseMS)
		if math.Abs(c.Drift) > math.Abs(merged.Drift) {
			merged.Drift = c.Drift
		}
		if math.Abs(c.FarthestMS) > math.Abs(merged.FarthestMS) {
			merged.FarthestMS = c.FarthestMS
		}
	}
	return merged
}
