package dash

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/dash/figures"
	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// denials are who is being denied.
type denials struct {
	reader   *source.DenialReader // nil if the store keeps none
	fetching bool
	known    bool // they were read, or a recording has them
	problem  error
	keys     map[store.Key]*denial
	total    float64 // denials a second, of all selected keys
	others   float64 // denials a second of keys that are without a count of their own, selected or not
	lost     bool
	begun    time.Time // when the first look was
	totals   figures.History
	unnamed  figures.History
}

// denial is how one key is being denied.
type denial struct {
	counts figures.History
	rate   float64   // denials a second lately
	last   time.Time // when it was denied last, by our clock
	since  time.Time // when that began without a pause; zero if it is not known
	placed float64   // the rate that the key's place in the list goes by
	// blocked: a block denies it, by what was in force at the last look.
	blocked bool
}

const (
	// denialsEvery is the least time between two looks: services add to the table once a
	// second.
	denialsEvery = time.Second
	// stillDenied is for how long after its last denial a key counts as being denied: the
	// time that this needs to get into the table and be read, twice.
	stillDenied = 4 * time.Second
	// sameRate is by how much a rate may change before its row may move.
	sameRate = 0.2
)

// denialsDue: the table is to be read again.
type denialsDue struct{}

// count takes in how often a key was denied.
func (d *denials) count(known *denial, count int64, since *source.DeniedSince) {
	known.rate = d.lateRate(&known.counts, count, since)
	known.place()
}

// place lets the key's place follow its rate, but not each change of it.
func (d *denial) place() {
	if d.rate == 0 || math.Abs(d.rate-d.placed) > d.placed*sameRate {
		d.placed = d.rate
	}
}

// lateRate adds a count to a history, and returns the rate lately. At the first look only
// the mean over more than a minute is known, which stands in until there is a difference.
func (d *denials) lateRate(h *figures.History, count int64, since *source.DeniedSince) float64 {
	if since.First {
		return float64(count) / since.Over.Seconds()
	}
	if h.Values == nil { // none were counted since the looks began
		h.Sums = true
		before := since.At.Add(-since.Over)
		from := since.At.Add(-lately * time.Second)
		if from.Before(d.begun) {
			from = d.begun
		}
		if h.Add(from, float32(math.NaN())); before.Unix() > from.Unix() {
			h.Add(before, 0)
		}
	}
	h.Add(since.At, float32(count))
	return h.Mean(lately)
}

// sinceMS is how long ago the denials began, 0 if that is not known.
func (d *denial) sinceMS(now time.Time) int64 {
	if d.since.IsZero() {
		return 0
	}
	return max(0, output.Milliseconds(now.Sub(d.since)))
}

// deniedRate is how often a second the key was denied lately.
func (r *row) deniedRate() float64 {
	if r.denial == nil {
		return 0
	}
	return r.denial.rate
}

// isBlocked reports whether the key is denied by a block.
func (r *row) isBlocked() bool { return r.denial != nil && r.denial.blocked }

// isDenied reports whether the key is being denied now.
func (r *row) isDenied(now time.Time) bool {
	return r.denial != nil && now.Sub(r.denial.last) < stillDenied
}

// deniedShare is how much of what was asked for was denied lately, 1 being all of it, if
// each request was of one unit.
func (r *row) deniedShare() float64 {
	denied := r.deniedRate()
	if denied == 0 {
		return 0
	}
	return denied / (denied + r.rate())
}

// percentDenied writes deniedShare. Less than all is not written as all.
func (r *row) percentDenied() string {
	share := r.deniedShare()
	if share < 1 {
		share = min(share, 0.99)
	}
	return fmt.Sprintf("%.0f%%", math.Round(share*100))
}

// byLimits is how often a second limits deny, as far as keys are counted.
func (d *denials) byLimits() float64 {
	blocked, _ := d.byBlocks()
	return d.total - blocked
}

// byBlocks is how many keys blocks deny, and how often a second.
func (d *denials) byBlocks() (rate float64, keys int) {
	for _, known := range d.keys {
		if known.blocked {
			rate += known.rate
			keys++
		}
	}
	return rate, keys
}

// summary says how much is denied in all by limits, and of how many keys, and how much by blocks. What is
// not known, or not there, is "".
func (d *denials) summary() (all, of, blocked string) {
	if !d.known {
		return "", "", ""
	}
	byBlocks, blockedKeys := d.byBlocks()
	rate, keys := figures.Short(d.total-byBlocks), fmt.Sprint(len(d.keys)-blockedKeys)
	if blockedKeys > 0 {
		blocked = "blocked " + figures.Short(byBlocks) + "/s"
	}
	if d.lost || d.others > 0 {
		rate = "≥" + rate
	}
	if d.others > 0 {
		keys = "≥" + keys
	}
	noun := "keys"
	if keys == "1" {
		noun = "key"
	}
	return rate + " denied/s", fmt.Sprintf(" of %s %s", keys, noun), blocked
}

// frame is what a recording keeps, nil if nothing is known. The keys denied most come first.
func (d *denials) frame(now time.Time) *source.DenialFrame {
	if !d.known || d.problem != nil {
		return nil
	}
	f := &source.DenialFrame{PerSecond: d.total, OthersPerSecond: d.others, Lost: d.lost}
	for key, known := range d.keys {
		f.Keys = append(f.Keys, source.DeniedKey{Key: key.Subject, Name: key.Name, PerSecond: known.rate,
			AgoMS: max(0, output.Milliseconds(now.Sub(known.last))), SinceMS: known.sinceMS(now), Blocked: known.blocked})
	}
	slices.SortFunc(f.Keys, func(a, b source.DeniedKey) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Name, b.Name))
	})
	return f
}
