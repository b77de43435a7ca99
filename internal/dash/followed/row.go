// Package followed keeps what is known of the keys that a dashboard follows: what each was like over the last minutes,
// in which order they come, which of them a filter keeps, and what denied ones have in common. It draws nothing.
package followed

import (
	"fmt"
	"math"
	"time"

	"github.com/limitctl/limitctl/internal/dash/denied"
	"github.com/limitctl/limitctl/internal/dash/figures"
	"github.com/limitctl/limitctl/internal/dash/source"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Row is a key that is followed.
type Row struct {
	source.Reading
	InUse   bool
	Stale   bool            // it was not read at the last look, since its node is away
	Updated time.Time       // when it was last read
	UsedAt  time.Time       // when it was last in use
	Shares  figures.History // of the limit that was used
	Units   figures.History // units a second
	// Parts are the fields of a key that a policy made; nil of any other.
	Parts *policy.KeyFields
	// Attributes are those of the key: of a policy's, or of a subject that is written alike.
	Attributes []policy.Attribute
	// SubjectWidth and LimitWidth are the columns that its names take.
	SubjectWidth, LimitWidth int

	Denial   *denied.Rate    // how it is being denied; nil if it is not
	Override *store.Override // the one that it is under; nil if it is under none

	fullAt    time.Time // when nothing was left, at a look
	sinceFull int       // how many looks ago that was

	// Listed is where the row was listed when the rows were arranged.
	Listed int
	placed place // where it belonged then

	held      place
	heldUntil time.Time
}

// ID names the row.
func (r *Row) ID() source.ID { return source.IDOf(&r.Entry) }

// New begins to follow a key.
func New(reading source.Reading, now time.Time) *Row {
	r := &Row{Reading: reading, UsedAt: now, InUse: reading.IsUsed(), Units: figures.History{Sums: true}}
	if reading.AtLimit() {
		r.fullAt = now
	}
	if parts, is := policy.ParseKey(reading.Key); is && reading.Layout == "" {
		r.Parts = &parts
	}
	r.Attributes = source.AttributesOf(&reading.Entry)
	r.SubjectWidth, r.LimitWidth = widthOf(r.Key.Subject), widthOf(r.LimitName())
	return r
}

// widthOf is the columns that a name takes as it is shown.
func widthOf(name string) int { return output.Width(output.Escape(output.Printable(name))) }

// Update takes in what the key is like at now.
func (r *Row) Update(reading source.Reading, now time.Time) {
	taken := float32(reading.Taken)
	if r.Updated.IsZero() || reading.UsedUnknown { // there is nothing to compare with
		taken = float32(math.NaN())
	}
	r.Reading, r.Updated, r.UsedAt, r.InUse = reading, now, now, true
	if r.sinceFull++; r.AtLimit() {
		r.fullAt, r.sinceFull = now, 0
	}
	if share, known := reading.Share(); known {
		r.Shares.Add(now, float32(share))
	} else {
		r.Shares.Add(now, float32(math.NaN()))
	}
	r.Units.Add(now, taken)
}

// Empty makes the key unused as of now.
func (r *Row) Empty(now time.Time, f source.Rules) {
	r.Used, r.Remaining, r.RetryAfter, r.ResetAfter, r.TTL, r.Taken = 0, 0, 0, 0, 0, 0
	r.InUse, r.Updated, r.fullAt, r.Defects = false, now, time.Time{}, nil
	if r.UsedUnknown = false; r.CapacityKnown() {
		r.Limit, r.Recorded = r.LastLimit(), store.Limit{}
		r.Limit = f.Limit(&r.Entry) // there is no record any more, so no other limit is told
		r.Remaining = r.Limit.Capacity()
		f.Block(&r.Entry)
	}
	r.Shares.Add(now, 0)
	r.Units.Add(now, 0)
}

// IsAtLimit reports whether the limit is reached now, or was reached lately and is not free again. A busy key has
// nothing left at most looks. At the others it has a unit that the next request takes.
func (r *Row) IsAtLimit() bool {
	if r.AtLimit() {
		return true
	}
	const (
		looks    = 2
		hardlyOf = 20 // a twentieth of all
	)
	recently := r.sinceFull <= looks || r.Updated.Sub(r.fullAt) < figures.Lately*time.Second
	return !r.fullAt.IsZero() && recently && r.RemainingKnown() && r.Remaining <= max(1, r.Limit.Capacity()/hardlyOf)
}

// IsUnderBlock reports whether a block denies all of the key, asked for or not.
func (r *Row) IsUnderBlock() bool { return r.IsBlocked() || source.IsBlock(r.Override) }

// Found reports whether the key was ever found in use: one that was named need not be.
func (r *Row) Found() bool { return r.CapacityKnown() || r.StoreKey != "" }

// IsUnknown reports whether the key was found and what remains of its limit cannot be
// told.
func (r *Row) IsUnknown() bool { return r.Found() && !r.RemainingKnown() }

// Rate is the units a second lately.
func (r *Row) Rate() float64 { return r.Units.Mean(figures.Lately) }

// LimitName is the name of the key's limit, without the attributes that can follow it.
func (r *Row) LimitName() string {
	if r.Parts != nil {
		return r.Parts.LimitName()
	}
	return r.Key.Name
}

// stillDenied is for how long after its last denial a key counts as being denied: the
// time that this needs to get into the table and be read, twice.
const stillDenied = 4 * time.Second

// DeniedRate is how often a second the key was denied lately.
func (r *Row) DeniedRate() float64 {
	if r.Denial == nil {
		return 0
	}
	return r.Denial.PerSecond
}

// IsBlocked reports whether the key is denied by a block.
func (r *Row) IsBlocked() bool { return r.Denial != nil && r.Denial.Blocked }

// IsDenied reports whether the key is being denied now.
func (r *Row) IsDenied(now time.Time) bool {
	return r.Denial != nil && now.Sub(r.Denial.Last) < stillDenied
}

// DeniedShare is how much of what was asked for was denied lately, 1 being all of it, if
// each request was of one unit.
func (r *Row) DeniedShare() float64 {
	denied := r.DeniedRate()
	if denied == 0 {
		return 0
	}
	return denied / (denied + r.Rate())
}

// PercentDenied writes DeniedShare. Less than all is not written as all.
func (r *Row) PercentDenied() string {
	share := r.DeniedShare()
	if share < 1 {
		share = min(share, 0.99)
	}
	return fmt.Sprintf("%.0f%%", math.Round(share*100))
}
