package dash

import (
	"fmt"
	"github.com/limitctl/limitctl/cmd/internal/dash/denied"
	"math"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/dash/figures"
	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// row is a key that is followed.
type row struct {
	source.Reading
	inUse   bool
	stale   bool      // it was not read at the last look, since its node is away
	updated time.Time // when it was last read
	// followedSince is when it was found.
	followedSince time.Time
	usedAt        time.Time       // when it was last in use
	shares        figures.History // of the limit that was used
	taken         figures.History // units a second
	parts         *policy.KeyFields
	// attributes are those of the key: of a policy's, or of a subject that is written alike.
	attributes []policy.Attribute
	// subjectWidth and limitWidth are the columns that its names take.
	subjectWidth, limitWidth int

	denial   *denied.Rate    // how it is being denied; nil if it is not
	override *store.Override // the one that it is under; nil if it is under none

	fullAt    time.Time // when nothing was left, at a look
	sinceFull int       // how many looks ago that was

	placed    place // where it belonged when the rows were arranged
	listed    int   // where it was listed then
	held      place
	heldUntil time.Time
}

// id names the row.
func (r *row) id() source.ID { return source.IDOf(&r.Entry) }

func newRow(reading source.Reading, now time.Time) *row {
	r := &row{Reading: reading, usedAt: now, followedSince: now, inUse: reading.IsUsed(), taken: figures.History{Sums: true}}
	if reading.AtLimit() {
		r.fullAt = now
	}
	if parts, is := policy.ParseKey(reading.Key); is && reading.Layout == "" {
		r.parts = &parts
	}
	r.attributes = source.AttributesOf(&reading.Entry)
	r.subjectWidth, r.limitWidth = width(output.Printable(r.Key.Subject)), width(output.Printable(r.limitName()))
	return r
}

// update takes in what the key is like at now.
func (r *row) update(reading source.Reading, now time.Time) {
	taken := float32(reading.Taken)
	if r.updated.IsZero() || reading.UsedUnknown { // there is nothing to compare with
		taken = float32(math.NaN())
	}
	r.Reading, r.updated, r.usedAt, r.inUse = reading, now, now, true
	if r.sinceFull++; r.AtLimit() {
		r.fullAt, r.sinceFull = now, 0
	}
	if share, known := reading.Share(); known {
		r.shares.Add(now, float32(share))
	} else {
		r.shares.Add(now, float32(math.NaN()))
	}
	r.taken.Add(now, taken)
}

// empty makes the key unused as of now.
func (r *row) empty(now time.Time, f source.Rules) {
	r.Used, r.Remaining, r.RetryAfter, r.ResetAfter, r.TTL, r.Taken = 0, 0, 0, 0, 0, 0
	r.inUse, r.updated, r.fullAt, r.Defects = false, now, time.Time{}, nil
	if r.UsedUnknown = false; r.CapacityKnown() {
		r.Limit, r.Recorded = source.RecordedLimit(&r.Entry), store.Limit{}
		r.Limit = f.Limit(&r.Entry) // there is no record any more, so no other limit is told
		r.Remaining = r.Limit.Capacity()
		f.Block(&r.Entry)
	}
	r.shares.Add(now, 0)
	r.taken.Add(now, 0)
}

// isAtLimit reports whether the limit is reached now, or was reached lately and is not free again. A busy key has
// nothing left at most looks. At the others it has a unit that the next request takes.
func (r *row) isAtLimit() bool {
	if r.AtLimit() {
		return true
	}
	const (
		looks    = 2
		hardlyOf = 20 // a twentieth of all
	)
	recently := r.sinceFull <= looks || r.updated.Sub(r.fullAt) < figures.Lately*time.Second
	return !r.fullAt.IsZero() && recently && r.RemainingKnown() && r.Remaining <= max(1, r.Limit.Capacity()/hardlyOf)
}

// isUnderBlock reports whether a block denies all of the key, asked for or not.
func (r *row) isUnderBlock() bool { return r.isBlocked() || source.IsBlock(r.override) }

// found reports whether the key was ever found in use: one that was named need not be.
func (r *row) found() bool { return r.CapacityKnown() || r.StoreKey != "" }

// isUnknown reports whether the key was found and what remains of its limit cannot be
// told.
func (r *row) isUnknown() bool { return r.found() && !r.RemainingKnown() }

// rate is the units a second lately.
func (r *row) rate() float64 { return r.taken.Mean(figures.Lately) }

// limitName is the name of the key's limit, without the attributes that can follow it.
func (r *row) limitName() string {
	if r.parts != nil {
		return r.parts.LimitName()
	}
	return r.Key.Name
}

// closeness is the colour of a share of a limit: calm, near, or at it.
func closeness(r *row) output.Style {
	switch {
	case !r.inUse:
		return output.Faint
	case r.isUnknown():
		return output.Plain
	case r.isAtLimit():
		return full
	case r.UsedShare() >= admin.NearShare:
		return output.Near
	}
	return output.Room
}

const (
	// denialsEvery is the least time between two looks: services add to the table once a
	// second.
	denialsEvery = time.Second
	// stillDenied is for how long after its last denial a key counts as being denied: the
	// time that this needs to get into the table and be read, twice.
	stillDenied = 4 * time.Second
)

// denialsDue: the table is to be read again.
type denialsDue struct{}

// deniedRate is how often a second the key was denied lately.
func (r *row) deniedRate() float64 {
	if r.denial == nil {
		return 0
	}
	return r.denial.PerSecond
}

// isBlocked reports whether the key is denied by a block.
func (r *row) isBlocked() bool { return r.denial != nil && r.denial.Blocked }

// isDenied reports whether the key is being denied now.
func (r *row) isDenied(now time.Time) bool {
	return r.denial != nil && now.Sub(r.denial.Last) < stillDenied
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
