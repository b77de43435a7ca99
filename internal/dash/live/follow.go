package live

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// followDenied follows the keys that are being denied, however far from its limit the store says that they are.
func (f *Feed) followDenied() {
	denied := len(f.Denials.Keys) > 0
	if !denied && !f.anyDenied {
		return
	}
	f.anyDenied = denied
	for key := range f.Denials.Keys {
		if f.Rows[OwnID(key)] == nil {
			f.Rows[OwnID(key)] = newRow(Reading{Entry: admin.Entry{Key: key}}, f.Clock)
		}
	}
	for id, r := range f.Rows {
		r.Denial = f.Denials.Keys[id.Key]
	}
	f.evict()
	f.Arrange()
}

// evict stops following the keys that matter least, if there are too many.
func (f *Feed) evict() {
	over := len(f.Rows) - f.MaxKeys
	if over <= 0 {
		return
	}
	worst := make([]*Row, 0, over+1) // the best of them first; they are few, so all rows need not be sorted
	for _, r := range f.Rows {
		if len(worst) == over && f.compareWorth(r, worst[0]) < 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(worst, r, f.compareWorth)
		if worst = slices.Insert(worst, i, r); len(worst) > over {
			worst = slices.Delete(worst, 0, 1)
		}
	}
	for _, r := range worst {
		delete(f.Rows, r.ID())
	}
}

// compareWorth says which of two rows is rather followed.
func (f *Feed) compareWorth(a, b *Row) int {
	if c := trueFirst(f.pins(a), f.pins(b)); c != 0 {
		return c
	}
	if c := cmp.Or(trueFirst(!a.IsUnderBlock(), !b.IsUnderBlock()), cmp.Compare(b.DeniedRate(), a.DeniedRate())); c != 0 {
		return c
	}
	return closestFirst(&a.Reading, &b.Reading)
}

// findLeast finds the row that evict would take first. There is none with room for more rows, and while a filter pins
// what it matches.
func (f *Feed) findLeast() {
	f.least = nil
	f.leastShare.Store(0)
	if len(f.Rows) < f.MaxKeys || f.Filter.Text != "" {
		return
	}
	for _, r := range f.Rows {
		if f.least == nil || f.compareWorth(r, f.least) > 0 {
			f.least = r
		}
	}
	if f.least == nil || f.least.IsUnderBlock() || f.least.DeniedRate() > 0 || f.pins(f.least) {
		f.least = nil // which one is followed goes by more than how close it is to its limit
		return
	}
	f.leastShare.Store(math.Float64bits(f.least.UsedShare()))
}

// Tally counts followed rows.
type Tally struct {
	InUse, AtLimit   int64
	Defective, Stuck int // those that have a defect, and those that stay so
}

func (t *Tally) add(r *Row) {
	if !r.InUse {
		return
	}
	if t.InUse++; r.placed.atLimit {
		t.AtLimit++
	}
	if len(r.Defects) > 0 {
		t.Defective++
		if r.IsStuck() {
			t.Stuck++
		}
	}
}

// Away is a node that does not answer, while others do.
type Away struct {
	Since time.Time // when it answered last
	Keys  int
}

// absorbAway takes in which nodes do not answer.
func absorbAway(f *Feed, s *snapshot) {
	all := map[string]Away{}
	for i := range s.Away {
		a := &s.Away[i]
		n := Away{f.Answered, len(a.Keys)}
		if before, was := f.Away[a.Node]; was {
			n.Since = before.Since
		}
		all[a.Node] = n
	}
	f.Away = all
	unread := s.Unread()
	for key, r := range f.Rows {
		_, r.Stale = unread[key]
	}
}
