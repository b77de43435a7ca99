package followed

import (
	"cmp"
	"math"
	"time"

	"github.com/limitctl/limitctl/internal/dash/source"
)

// place is where a row belongs by its closeness to the limit. It is in whole percent, so
// that a row that changes little stays where it is.
type place struct {
	denied         float64
	blocked        bool // a block denies all of it
	inUse, atLimit bool
	stuck          bool
	percent        int
}

func (r *Row) place() place {
	if r.Updated.Before(r.heldUntil) {
		return r.held
	}
	denied := 0.0
	if r.Denial != nil {
		denied = r.Denial.Placed
	}
	return place{denied, r.IsUnderBlock(), r.InUse, r.InUse && r.IsAtLimit(), r.InUse && r.IsUsed() && r.IsStuck(), percent(r.UsedShare())}
}

// Place notes where the row belongs now. [Order.Compare], IsSunk and PlacedAtLimit go by that.
func (r *Row) Place() { r.placed = r.place() }

// IsSunk reports whether the row is among the blocked ones, which are last.
func (r *Row) IsSunk() bool { return r.placed.blocked }

// PlacedAtLimit reports whether the row was in use and at its limit when it was placed.
func (r *Row) PlacedAtLimit() bool { return r.placed.atLimit }

// Hold keeps the row in its place for a while, so that the result of an action is seen.
func (r *Row) Hold(until time.Time) { r.held, r.heldUntil = r.place(), until }

// Order is one that rows can be in.
type Order int

// The orders, as the keys of the dashboard go through them.
const (
	ByDenied Order = iota // those that nobody is denied by closeness, as the following; blocked ones last in both
	ByCloseness
	ByRate
	ByUsed
	ByRemaining
	ByReset
	BySubject
	ByLimit
	Orders // how many there are
)

func (o Order) String() string {
	return [...]string{"denials a second", "closeness to the limit", "units a second", "used", "remaining", "time to reset", "subject",
		"limit"}[o]
}

// Compare says which row comes first, 0 if neither does.
func (o Order) Compare(a, b *Row) int {
	switch o {
	case ByDenied:
		x, y := &a.placed, &b.placed
		return cmp.Or(TrueFirst(!x.blocked, !y.blocked), cmp.Compare(y.denied, x.denied), ByCloseness.Compare(a, b))
	case ByCloseness:
		x, y := &a.placed, &b.placed
		return cmp.Or(TrueFirst(!x.blocked, !y.blocked), TrueFirst(x.atLimit, y.atLimit), TrueFirst(x.inUse, y.inUse),
			TrueFirst(x.stuck, y.stuck), cmp.Compare(y.percent, x.percent), compareUnknown(a, b))
	case ByRate:
		return cmp.Compare(math.Round(b.Rate()*10), math.Round(a.Rate()*10))
	case ByUsed:
		return cmp.Or(TrueFirst(a.UsedKnown(), b.UsedKnown()), cmp.Compare(b.Used, a.Used))
	case ByRemaining:
		return cmp.Or(TrueFirst(!a.IsUnknown(), !b.IsUnknown()), cmp.Compare(a.Remaining, b.Remaining))
	case ByReset:
		return cmp.Compare(b.ResetAfter.Round(time.Second), a.ResetAfter.Round(time.Second))
	case ByLimit:
		return cmp.Compare(a.LimitName(), b.LimitName())
	default: // BySubject
		return source.CompareIDs(a.ID(), b.ID())
	}
}

// compareUnknown compares rows of the same percentage: what is known first, then what is not, by
// what is used.
func compareUnknown(a, b *Row) int {
	if !a.IsUnknown() || !b.IsUnknown() {
		return TrueFirst(!a.IsUnknown(), !b.IsUnknown())
	}
	return ByUsed.Compare(a, b)
}

// TrueFirst compares for an order in which what is true comes first.
func TrueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func percent(share float64) int { return int(math.Floor(share * 100)) }
