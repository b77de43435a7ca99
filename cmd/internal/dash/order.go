package dash

import (
	"cmp"
	"math"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/cmd/internal/output"
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

func (r *row) place() place {
	if r.updated.Before(r.heldUntil) {
		return r.held
	}
	denied := 0.0
	if r.denial != nil {
		denied = r.denial.Placed
	}
	return place{denied, r.isUnderBlock(), r.inUse, r.inUse && r.isAtLimit(), r.inUse && r.IsUsed() && r.IsStuck(), percent(r.UsedShare())}
}

// hold keeps the row in its place for a while, so that the result of an action is seen.
func (r *row) hold(until time.Time) { r.held, r.heldUntil = r.place(), until }

// order is one that rows can be in.
type order int

const (
	byDenied order = iota // those that nobody is denied by closeness, as the following; blocked ones last in both
	byCloseness
	byRate
	byUsed
	byRemaining
	byReset
	bySubject
	byLimit
	orders // how many there are
)

func (o order) String() string {
	return [...]string{"denials a second", "closeness to the limit", "units a second", "used", "remaining", "time to reset", "subject",
		"limit"}[o]
}

// compare says which row comes first, 0 if neither does.
func (o order) compare(a, b *row) int {
	switch o {
	case byDenied:
		x, y := &a.placed, &b.placed
		return cmp.Or(compareBool(!x.blocked, !y.blocked), cmp.Compare(y.denied, x.denied), byCloseness.compare(a, b))
	case byCloseness:
		x, y := &a.placed, &b.placed
		return cmp.Or(compareBool(!x.blocked, !y.blocked), compareBool(x.atLimit, y.atLimit), compareBool(x.inUse, y.inUse),
			compareBool(x.stuck, y.stuck), cmp.Compare(y.percent, x.percent), compareUnknown(a, b))
	case byRate:
		return cmp.Compare(math.Round(b.rate()*10), math.Round(a.rate()*10))
	case byUsed:
		return cmp.Or(compareBool(a.UsedKnown(), b.UsedKnown()), cmp.Compare(b.Used, a.Used))
	case byRemaining:
		return cmp.Or(compareBool(!a.isUnknown(), !b.isUnknown()), cmp.Compare(a.Remaining, b.Remaining))
	case byReset:
		return cmp.Compare(b.ResetAfter.Round(time.Second), a.ResetAfter.Round(time.Second))
	case byLimit:
		return cmp.Compare(a.limitName(), b.limitName())
	default: // bySubject
		return source.CompareIDs(a.id(), b.id())
	}
}

// compareUnknown compares rows of the same percentage: what is known first, then what is not, by
// what is used.
func compareUnknown(a, b *row) int {
	if !a.isUnknown() || !b.isUnknown() {
		return compareBool(!a.isUnknown(), !b.isUnknown())
	}
	return byUsed.compare(a, b)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// percentText is how much of the limit is used, in percent.
func percentText(r *row) string {
	if r.isUnknown() {
		return "?"
	}
	if !r.found() {
		return "-"
	}
	return output.Thousands(int64(percent(r.UsedShare()))) + "%"
}

func percent(share float64) int { return int(math.Floor(share * 100)) }
