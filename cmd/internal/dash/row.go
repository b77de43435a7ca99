package dash

import (
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// row is a key that is followed.
type row struct {
	Reading
	inUse   bool
	updated time.Time // when it was last read
	usedAt  time.Time // when it was last in use
	shares  history   // of the limit that was used
	taken   history   // units a second
	parts   *policy.Parts

	held      place
	heldUntil time.Time
}

func newRow(reading Reading, now time.Time) *row {
	r := &row{Reading: reading, usedAt: now, inUse: reading.Used > 0, taken: history{sums: true}}
	if parts, is := policy.ParseKey(reading.Key); is {
		r.parts = &parts
	}
	return r
}

// update takes in what the key is like at now.
func (r *row) update(reading Reading, now time.Time) {
	taken := float32(reading.Taken)
	if r.updated.IsZero() { // there is nothing to compare with
		taken = float32(math.NaN())
	}
	r.Reading, r.updated, r.usedAt, r.inUse = reading, now, now, true
	r.shares.add(now, float32(reading.share()))
	r.taken.add(now, taken)
}

// empty makes the key unused as of now.
func (r *row) empty(now time.Time) {
	r.Used, r.Remaining, r.RetryAfter, r.ResetAfter, r.TTL, r.Taken = 0, 0, 0, 0, 0, 0
	r.inUse, r.updated = false, now
	if r.Limit.Algorithm != 0 {
		r.Remaining = r.Limit.Capacity()
	}
	r.shares.add(now, 0)
	r.taken.add(now, 0)
}

func (r *row) known() bool { return r.Limit.Algorithm != 0 }

// entry is the row as a scan's entry, as far as a selection looks at it.
func (r *row) entry() *limiter.Entry {
	return &limiter.Entry{Key: r.Key, StoreKey: r.StoreKey, Limit: r.Limit, TTL: r.TTL,
		Decision: limiter.Decision{Used: r.Used, Remaining: r.Remaining, RetryAfter: r.RetryAfter, ResetAfter: r.ResetAfter}}
}

// largeLog is from what capacity on a sliding log is large, and from how many slices on
// a counter is like one.
const largeLog = 40

func (r *row) isLargeLog() bool {
	return r.Limit.Algorithm == limiter.SlidingLog && r.Limit.Capacity() > largeLog || r.Limit.Slices > largeLog
}

// lately is over how long the units a second are reckoned.
const lately = 10

// rate is the units a second lately.
func (r *row) rate() float64 { return r.taken.mean(lately) }

// limitName is the name of the key's limit, without the attributes that can follow it.
func (r *row) limitName() string {
	if r.parts != nil {
		return r.parts.Policy + "/" + r.parts.Limit
	}
	return r.Key.Name
}
