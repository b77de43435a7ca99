package dash

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
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
	r := &row{Reading: reading, usedAt: now, inUse: reading.isUsed(), taken: history{sums: true}}
	if parts, is := policy.ParseKey(reading.Key); is {
		r.parts = &parts
	}
	return r
}

// update takes in what the key is like at now.
func (r *row) update(reading Reading, now time.Time) {
	taken := float32(reading.Taken)
	if r.updated.IsZero() || reading.UsedUnknown { // there is nothing to compare with
		taken = float32(math.NaN())
	}
	r.Reading, r.updated, r.usedAt, r.inUse = reading, now, now, true
	if share, known := reading.Share(); known {
		r.shares.add(now, float32(share))
	} else {
		r.shares.add(now, float32(math.NaN()))
	}
	r.taken.add(now, taken)
}

// empty makes the key unused as of now.
func (r *row) empty(now time.Time) {
	r.Used, r.Remaining, r.RetryAfter, r.ResetAfter, r.TTL, r.Taken = 0, 0, 0, 0, 0, 0
	r.inUse, r.updated = false, now
	if r.UsedUnknown = false; r.CapacityKnown() {
		r.Remaining = r.Limit.Capacity()
	}
	r.shares.add(now, 0)
	r.taken.add(now, 0)
}

// found reports whether the key was ever found in use: one that was named need not be.
func (r *row) found() bool { return r.CapacityKnown() || r.StoreKey != "" }

// isUnknown reports whether the key was found and what remains of its limit cannot be
// told.
func (r *row) isUnknown() bool { return r.found() && !r.RemainingKnown() }

// lately is over how long the units a second are reckoned.
const lately = 10

// rate is the units a second lately.
func (r *row) rate() float64 { return r.taken.mean(lately) }

// limitName is the name of the key's limit, without the attributes that can follow it.
func (r *row) limitName() string {
	if r.parts != nil {
		return r.parts.LimitName()
	}
	return r.Key.Name
}

// historyLength is how many seconds are remembered.
const historyLength = 300

// history is a value at each of the last seconds.
type history struct {
	values []float32 // a ring, NaN where nothing is known
	last   int64     // the second of the last value
	sums   bool      // values of one second add up; else the greatest counts
}

// longestRefresh is up to how far apart two values say what was between them.
const longestRefresh = 60

// slot is where in the ring a second is, also one before 1970.
func slot(second int64) int64 { return (second%historyLength + historyLength) % historyLength }

// add puts a value into its second. What was between it and the last is taken as
// even, unless that is too long ago.
func (h *history) add(at time.Time, value float32) {
	second := at.Unix()
	if h.values == nil {
		h.last = second
		h.values = []float32{value}
		return
	}
	if second <= h.last {
		i := slot(h.last)
		if len(h.values) < historyLength {
			i = int64(len(h.values)) - 1
		}
		switch {
		case isNaN(h.values[i]):
			h.values[i] = value
		case h.sums:
			h.values[i] += value
		default:
			h.values[i] = max(h.values[i], value)
		}
		return
	}
	gap := min(second-h.last, historyLength)
	if h.sums {
		value /= float32(gap) // it was taken since the last one
	}
	for n := gap - 1; n > 0; n-- {
		if gap > longestRefresh {
			h.put(second-n, float32(math.NaN()))
		} else {
			h.put(second-n, value)
		}
	}
	h.put(second, value)
}

// put appends the value of the next second.
func (h *history) put(second int64, value float32) {
	if len(h.values) < historyLength {
		if h.values = append(h.values, value); len(h.values) == historyLength {
			h.rotate(second)
		}
	} else {
		h.values[slot(second)] = value
	}
	h.last = second
}

// rotate brings a slice that has just been filled into the order of a ring.
func (h *history) rotate(last int64) {
	ring := make([]float32, historyLength)
	for i, value := range h.values {
		ring[slot(last-int64(historyLength-1-i))] = value
	}
	h.values = ring
}

// at returns the value of a second, NaN if it is not known.
func (h *history) at(second int64) float32 {
	back := h.last - second
	if back < 0 || back >= int64(len(h.values)) {
		return float32(math.NaN())
	}
	if len(h.values) < historyLength {
		return h.values[int64(len(h.values))-1-back]
	}
	return h.values[slot(second)]
}

// mean is that of the last so many seconds, of those that are known. The second that
// is going on is one of them.
func (h *history) mean(seconds int64) float64 {
	sum, known := 0.0, 0
	for second := h.last - min(seconds, int64(len(h.values))) + 1; second <= h.last; second++ {
		if value := h.at(second); !isNaN(value) {
			sum += float64(value)
			known++
		}
	}
	return sum / float64(max(1, known))
}

// columns returns the greatest values of so many equal stretches of the last seconds
// up to now.
func (h *history) columns(now time.Time, seconds, columns int) []float32 {
	values := make([]float32, columns)
	end := now.Unix()
	for i := range values {
		values[i] = float32(math.NaN())
		from, to := end-int64(seconds)+int64(i*seconds/columns)+1, end-int64(seconds)+int64((i+1)*seconds/columns)
		for second := min(from, to); second <= to; second++ {
			if value := h.at(second); !isNaN(value) && (isNaN(values[i]) || value > values[i]) {
				values[i] = value
			}
		}
	}
	return values
}

func isNaN(f float32) bool { return f != f }

// place is where a row belongs by its closeness to the limit: in whole percent, so that
// what changes little keeps it.
type place struct {
	inUse, atLimit bool
	percent        int
}

func (r *row) place() place {
	if r.updated.Before(r.heldUntil) {
		return r.held
	}
	return place{r.inUse, r.inUse && r.atLimit(), percent(r.share())}
}

// hold keeps the row in its place for a while, whatever becomes of it, so that one sees
// what one has done.
func (r *row) hold(until time.Time) { r.held, r.heldUntil = r.place(), until }

// order is one that rows can be in.
type order int

const (
	byCloseness order = iota
	byRate
	byUsed
	byRemaining
	byReset
	bySubject
	byLimit
	orders // how many there are
)

func (o order) String() string {
	return [...]string{"closeness to the limit", "units a second", "used", "remaining", "time to reset", "subject", "limit"}[o]
}

// compare says which row comes first, 0 if neither does.
func (o order) compare(a, b *row) int {
	switch o {
	case byCloseness:
		x, y := a.place(), b.place()
		return cmp.Or(compareBool(x.atLimit, y.atLimit), compareBool(x.inUse, y.inUse), cmp.Compare(y.percent, x.percent))
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
	}
	return 0 // by key, as equals are
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
	return output.Thousands(int64(percent(r.share()))) + "%"
}

func percent(share float64) int { return int(math.Floor(share * 100)) }

// group is rows that have something in common.
type group struct {
	by      *grouping
	name    string
	keys    int
	atLimit int
	rate    float64
	worst   *row
}

// grouping is a way to make groups: by limit, or by an attribute.
type grouping struct{ attribute string }

// groupings are the ways that there always are.
func groupings() []grouping { return []grouping{{}} }

func (g *grouping) title() string {
	if g.attribute == "" {
		return "LIMIT"
	}
	return g.attribute
}

// of is the name of the row's group, "" if it is in none.
func (g *grouping) of(r *row) string {
	if g.attribute == "" {
		return r.limitName()
	}
	if r.parts != nil {
		for _, attribute := range r.parts.Attributes {
			if attribute.Name == g.attribute {
				return attribute.Value
			}
		}
	}
	return ""
}

// attributes are the names of those that keys have, in order.
func (m *model) attributes() []string {
	var names []string
	for _, r := range m.rows {
		if r.parts == nil {
			continue
		}
		for _, attribute := range r.parts.Attributes {
			if !slices.Contains(names, attribute.Name) {
				names = append(names, attribute.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// arrangeGroups makes the groups of the rows that the filter keeps.
func (m *model) arrangeGroups() {
	if m.screen != groupsScreen {
		return
	}
	byName := map[string]*group{}
	m.groups = m.groups[:0]
	for _, r := range m.shown {
		if !r.inUse {
			continue
		}
		name := m.by.of(r)
		g := byName[name]
		if g == nil {
			by := m.by
			g = &group{by: &by, name: name, worst: r}
			byName[name] = g
			m.groups = append(m.groups, g)
		}
		g.keys++
		g.rate += r.rate()
		if r.atLimit() {
			g.atLimit++
		}
		if byCloseness.compare(r, g.worst) < 0 {
			g.worst = r
		}
	}
	slices.SortFunc(m.groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.atLimit, a.atLimit), byCloseness.compare(a.worst, b.worst), cmp.Compare(a.name, b.name))
	})
	m.groupCursor = max(0, min(m.groupCursor, len(m.groups)-1))
	m.groupTop = scrolled(m.groupTop, m.groupCursor, len(m.groups), m.listHeight())
}
