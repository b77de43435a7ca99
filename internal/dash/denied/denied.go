// Package denied computes who is being denied, and how often a second, from looks at the table of denials.
package denied

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/dash/figures"
	"github.com/limitctl/limitctl/internal/dash/source"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Rates are who is being denied.
type Rates struct {
	Reader   *source.DenialReader // nil if the store keeps none
	Fetching bool
	Known    bool // they were read
	Problem  error
	Keys     map[store.Key]*Rate
	Total    float64 // denials a second, of all selected keys
	Others   float64 // denials a second of keys that are without a count of their own, selected or not
	Lost     bool
	Begun    time.Time // when the first look was
	Totals   figures.History
	Unnamed  figures.History
	// LetThrough is what overrides let through, by their IDs.
	LetThrough map[string]*Rate
}

// Rate is how one key is being denied, or how much one override lets through.
type Rate struct {
	Counts    figures.History
	PerSecond float64   // denials a second lately
	Last      time.Time // when it was denied last, by our clock
	// LastAt is the same by the store's clock.
	LastAt store.Instant
	Since  time.Time // when that began without a pause; zero if it is not known
	Placed float64   // the rate that the key's place in the list goes by
	// Blocked: a block denies it, by what was in force at the last look.
	Blocked bool
}

// sameRate is by how much a rate may change before its row may move.
const sameRate = 0.2

// Count takes in how often a key was denied.
func (d *Rates) Count(known *Rate, count int64, since *source.DeniedSince) {
	known.PerSecond = d.LateRate(&known.Counts, count, since)
	known.Place()
}

// Place lets the key's place follow its rate, but not each change of it.
func (d *Rate) Place() {
	if d.PerSecond == 0 || math.Abs(d.PerSecond-d.Placed) > d.Placed*sameRate {
		d.Placed = d.PerSecond
	}
}

// LateRate adds a count to a history, and returns the rate lately. At the first look only
// the mean over more than a minute is known, which stands in until there is a difference.
func (d *Rates) LateRate(h *figures.History, count int64, since *source.DeniedSince) float64 {
	if since.First {
		return float64(count) / since.Over.Seconds()
	}
	if h.Values == nil { // none were counted since the looks began
		h.Sums = true
		before := since.At.Add(-since.Over)
		from := since.At.Add(-figures.Lately * time.Second)
		if from.Before(d.Begun) {
			from = d.Begun
		}
		if h.Add(from, float32(math.NaN())); before.Unix() > from.Unix() {
			h.Add(before, 0)
		}
	}
	h.Add(since.At, float32(count))
	return h.Mean(figures.Lately)
}

// SinceMS is how long ago the denials began, 0 if that is not known.
func (d *Rate) SinceMS(now time.Time) int64 {
	if d.Since.IsZero() {
		return 0
	}
	return max(0, output.Milliseconds(now.Sub(d.Since)))
}

// ByLimits is how often a second limits deny, as far as keys are counted.
func (d *Rates) ByLimits() float64 {
	blocked, _ := d.ByBlocks()
	return d.Total - blocked
}

// ByBlocks is how many keys blocks deny, and how often a second.
func (d *Rates) ByBlocks() (rate float64, keys int) {
	for _, known := range d.Keys {
		if known.Blocked {
			rate += known.PerSecond
			keys++
		}
	}
	return rate, keys
}

// Summary says how much is denied in all by limits, and of how many keys, and how much by blocks. What is
// not known, or not there, is "".
func (d *Rates) Summary() (all, of, blocked string) {
	if !d.Known {
		return "", "", ""
	}
	byBlocks, blockedKeys := d.ByBlocks()
	rate, keys := figures.Short(d.Total-byBlocks), fmt.Sprint(len(d.Keys)-blockedKeys)
	if blockedKeys > 0 {
		blocked = "blocked " + figures.Short(byBlocks) + "/s"
	}
	if d.Lost || d.Others > 0 {
		rate = "≥" + rate
	}
	if d.Others > 0 {
		keys = "≥" + keys
	}
	noun := "keys"
	if keys == "1" {
		noun = "key"
	}
	return rate + " denied/s", fmt.Sprintf(" of %s %s", keys, noun), blocked
}

// Frame is what a [source.Document] has, nil if nothing is known. The keys denied most come first.
func (d *Rates) Frame(now time.Time) *source.DenialFrame {
	if !d.Known || d.Problem != nil {
		return nil
	}
	f := &source.DenialFrame{PerSecond: d.Total, OthersPerSecond: d.Others, Lost: d.Lost,
		LetThrough: d.letThrough()}
	for key, known := range d.Keys {
		f.Keys = append(f.Keys, source.DeniedKey{Key: key.Subject, Name: key.Name, PerSecond: known.PerSecond,
			AgoMS: max(0, output.Milliseconds(now.Sub(known.Last))), SinceMS: known.SinceMS(now), Blocked: known.Blocked})
	}
	slices.SortFunc(f.Keys, func(a, b source.DeniedKey) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Name, b.Name))
	})
	return f
}
