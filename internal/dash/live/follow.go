package live

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// followDenied follows the keys that are being denied, however far from its limit the store says that they are.
func (f *Feed) followDenied() {
	denied := f.Denials.Keys > 0
	if !denied && !f.anyDenied {
		return
	}
	f.anyDenied = denied
	for c := range f.Denials.Rates {
		if c.isKey() && f.Rows[OwnID(c.Key)] == nil {
			f.Rows[OwnID(c.Key)] = newRow(Reading{Entry: admin.Entry{Key: c.Key}}, f.Clock)
		}
	}
	for id, r := range f.Rows {
		r.Denial = f.Denials.Rates[Counted{Key: id.Key}]
	}
	f.Arrange()
}

// evict stops following the keys that matter least, if there are too many, and tells scans what a key must have to matter
// more than those that are left.
func (f *Feed) evict() {
	share := -1.0 // any
	if len(f.Rows) >= f.MaxKeys {
		rows := slices.SortedFunc(maps.Values(f.Rows), f.compareWorth)
		for _, r := range rows[f.MaxKeys:] {
			delete(f.Rows, r.ID())
		}
		least := rows[f.MaxKeys-1]
		if f.Filter.Text == "" && !least.IsUnderBlock() && least.DeniedRate() == 0 && !f.pins(least) {
			share = least.UsedShare()
		}
	}
	f.leastShare.Store(math.Float64bits(share))
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

// Tally counts followed rows.
type Tally struct {
	InUse, AtLimit int64
	Defective      int // those that have a defect
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
	}
}
