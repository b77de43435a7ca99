package keys

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
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

// topRows keeps the first rows in an order, never more than its bound. There can be
// millions, so a row is kept as few bytes.
type topRows struct {
	rows    []topRow
	order   keyOrder
	most    int // 0: all
	layout  admin.OwnLayout
	facts   *keyFacts
	limits  []store.Limit // that rows refer to
	limitAt map[store.Limit]uint64
	defects defectLists
	buffer  []byte
}

// topRow is a row that is kept: what it is ordered by, and all of it.
type topRow struct {
	figure float64
	packed string
}

func newTopRows(order keyOrder, most int, layout admin.OwnLayout, facts *keyFacts) *topRows {
	return &topRows{order: order, most: most, layout: layout, facts: facts, limitAt: map[store.Limit]uint64{}}
}

func (k *topRows) add(row *inspectRow) {
	figure, known := k.order(row)
	if !known {
		figure = math.Inf(-1)
	}
	switch {
	case k.most == 0:
		k.rows = append(k.rows, topRow{figure, k.pack(row)})
	case len(k.rows) < k.most:
		heap.Push(k, topRow{figure, k.pack(row)})
	case figure < k.rows[0].figure: // behind the last that is kept
	default:
		if kept := (topRow{figure, k.pack(row)}); kept.compare(&k.rows[0]) < 0 {
			k.rows[0] = kept
			heap.Fix(k, 0)
		}
	}
}

// sort puts the rows into their order.
func (k *topRows) sort() {
	slices.SortFunc(k.rows, func(a, b topRow) int { return a.compare(&b) })
}

func (r *topRow) compare(other *topRow) int {
	if order := cmp.Compare(other.figure, r.figure); order != 0 {
		return order
	}
	subject, rest := unpackText(r.packed)
	otherSubject, otherRest := unpackText(other.packed)
	if order := cmp.Compare(subject, otherSubject); order != 0 {
		return order
	}
	name, _ := unpackText(rest)
	otherName, _ := unpackText(otherRest)
	return cmp.Compare(name, otherName)
}

// pack returns a row as few bytes: its texts, and its numbers as varints.
func (k *topRows) pack(row *inspectRow) string {
	e := &row.entry
	storeKey := e.StoreKey
	if storeKey == k.layout.StoreKey(e.Key) {
		storeKey = ""
	}
	flags := uint64(0)
	for bit, set := range [...]bool{e.UsedUnknown, e.RetryTold, e.ResetTold} {
		if set {
			flags |= 1 << bit
		}
	}
	b := k.buffer[:0]
	for _, text := range [...]string{e.Key.Subject, e.Key.Name, storeKey, row.holds, e.Layout, packTexts(severalStoreKeys(e))} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	b = binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(b, k.limitNumber(e.Limit)), k.limitNumber(e.Recorded)), flags)
	b = binary.AppendUvarint(b, k.defects.number(e.Defects))
	for _, number := range [...]int64{e.Used, e.Remaining, int64(e.RetryAfter), int64(e.ResetAfter), int64(e.Delay), int64(e.TTL),
		e.Bytes} {
		b = binary.AppendVarint(b, number)
	}
	k.buffer = b
	return string(b)
}

// packTexts puts texts into one.
func packTexts(texts []string) string {
	var b []byte
	for _, text := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return string(b)
}

// limitNumber returns the number of a limit in the list of those that rows refer to.
func (k *topRows) limitNumber(limit store.Limit) uint64 {
	number, known := k.limitAt[limit]
	if !known {
		number = uint64(len(k.limits))
		k.limits, k.limitAt[limit] = append(k.limits, limit), number
	}
	return number
}

func unpackTexts(packed string) (texts []string) {
	for packed != "" {
		var text string
		text, packed = unpackText(packed)
		texts = append(texts, text)
	}
	return texts
}

func unpackText(packed string) (text, rest string) {
	length, rest := unpackNumber(packed)
	return rest[:length], rest[length:]
}

func unpackNumber(packed string) (number uint64, rest string) {
	for i, shift := 0, 0; ; i, shift = i+1, shift+7 {
		number |= uint64(packed[i]&0x7f) << shift
		if packed[i] < 0x80 {
			return number, packed[i+1:]
		}
	}
}

// row returns a row that was kept.
func (k *topRows) row(i int) inspectRow {
	var texts [6]string
	rest := k.rows[i].packed
	for n := range texts {
		texts[n], rest = unpackText(rest)
	}
	limit, rest := unpackNumber(rest)
	recorded, rest := unpackNumber(rest)
	flags, rest := unpackNumber(rest)
	defects, rest := unpackNumber(rest)
	var numbers [7]int64
	for n := range numbers {
		var folded uint64
		folded, rest = unpackNumber(rest)
		numbers[n] = int64(folded>>1) ^ -int64(folded&1)
	}
	e := admin.Entry{Key: store.Key{Subject: texts[0], Name: texts[1]}, StoreKey: texts[2],
		Limit: k.limits[limit], Recorded: k.limits[recorded], Layout: texts[4],
		UsedUnknown: flags&1 != 0, RetryTold: flags&2 != 0, ResetTold: flags&4 != 0,
		Defects: k.defects.list(defects), TTL: time.Duration(numbers[5]), Bytes: numbers[6]}
	e.Used, e.Remaining = numbers[0], numbers[1]
	e.RetryAfter, e.ResetAfter, e.Delay = time.Duration(numbers[2]), time.Duration(numbers[3]), time.Duration(numbers[4])
	if e.StoreKey == "" {
		e.StoreKey = k.layout.StoreKey(e.Key)
	}
	for _, storeKey := range unpackTexts(texts[5]) {
		e.Record.Members = append(e.Record.Members, admin.Member{StoreKey: storeKey})
	}
	row := k.facts.row(&e, nil)
	row.holds = texts[3]
	return row
}

// Len, Less, Swap, Push and Pop implement heap.Interface, the last row on top.
func (k *topRows) Len() int { return len(k.rows) }

func (k *topRows) Less(i, j int) bool { return k.rows[i].compare(&k.rows[j]) > 0 }

func (k *topRows) Swap(i, j int) { k.rows[i], k.rows[j] = k.rows[j], k.rows[i] }

func (k *topRows) Push(row any) { k.rows = append(k.rows, row.(topRow)) }

func (k *topRows) Pop() any {
	last := k.rows[len(k.rows)-1]
	k.rows = k.rows[:len(k.rows)-1]
	return last
}
