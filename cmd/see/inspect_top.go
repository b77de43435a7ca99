package see

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// keyOrder is the figure by which keys are ordered, the greatest first. Keys whose figure is unknown come last. Equal
// keys are ordered by name.
type keyOrder func(row *inspectRow) (figure float64, known bool)

// orders are the orders that keys can be shown in.
func orders() map[string]keyOrder {
	return map[string]keyOrder{
		"key":       func(*inspectRow) (float64, bool) { return 0, false },
		"share":     byShare,
		"used":      func(r *inspectRow) (float64, bool) { return float64(r.entry.Used), r.entry.UsedKnown() },
		"remaining": func(r *inspectRow) (float64, bool) { return -float64(r.entry.Remaining), r.entry.RemainingKnown() },
		"bytes":     func(r *inspectRow) (float64, bool) { return float64(r.entry.Bytes), true },
		"reset":     func(r *inspectRow) (float64, bool) { return float64(r.entry.ResetAfter), r.entry.ResetKnown() },
		"denied":    func(r *inspectRow) (float64, bool) { return float64(r.denied), true },
	}
}

// byShare orders by the used share of the limit. Keys whose share is not known come last:
// those with the most units in use first, then those of which only the reset is known.
func byShare(r *inspectRow) (figure float64, known bool) {
	e := &r.entry
	if share, known := e.Share(); known {
		return max(0, share), true
	}
	switch {
	case e.UsedKnown(): // from -1 to 0
		return -1 / (1 + max(0, float64(e.Used))), true
	case e.ResetKnown(): // from -2 to -1
		return -1 - 1/(1+max(0, e.ResetAfter.Seconds())), true
	}
	return 0, false
}

func orderNames() []string { return slices.Sorted(maps.Keys(orders())) }

// topRows keeps the first rows in an order, and not many more than its bound.
type topRows struct {
	rows  []topRow
	order keyOrder
	most  int // 0: all
}

// topRow is a row that is kept, and what it is ordered by.
type topRow struct {
	figure float64
	inspectRow
}

func (k *topRows) add(row *inspectRow) {
	figure, known := k.order(row)
	if !known {
		figure = math.Inf(-1)
	}
	kept := topRow{figure, *row}
	kept.entry.State, kept.entry.Record = nil, row.entry.Record.WithoutValues() // which may be large
	k.rows = append(k.rows, kept)
	const least = 100
	if k.most > 0 && len(k.rows) >= 2*max(least, k.most) {
		k.sort()
	}
}

// sort puts the rows into their order, and drops those beyond the bound.
func (k *topRows) sort() {
	slices.SortFunc(k.rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(b.figure, a.figure), cmp.Compare(a.entry.Key.Subject, b.entry.Key.Subject),
			cmp.Compare(a.entry.Key.Name, b.entry.Key.Name))
	})
	if k.most > 0 && len(k.rows) > k.most {
		clear(k.rows[k.most:])
		k.rows = k.rows[:k.most]
	}
}
